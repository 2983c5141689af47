//! Which recipes `--recipe` means.

use std::borrow::Cow;
use std::path::Path;

use super::RenderUsageError;
use contract::exit::ExitCode;

/// What a recipe's file ends with.
const ENDINGS: [&str; 2] = ["yaml", "yml"];

/// Whether an argument is a directory of recipes. A name of the library stays one, whatever lies around.
pub(super) fn is_directory(argument: &str) -> bool {
    !catalog::recipe_names().any(|name| name == argument) && Path::new(argument).is_dir()
}

/// The recipes, each as it is loaded: arguments in their order, the files of a directory in the order of their names.
pub(super) fn list(arguments: &[String]) -> Result<Vec<String>, RenderUsageError> {
    if arguments.iter().filter(|argument| *argument == "-").count() > 1 {
        return Err(RenderUsageError::usage(
            "`--recipe -` is given twice, and standard input can be read once".to_owned(),
            None,
        ));
    }
    let mut recipes = Vec::new();
    for argument in arguments {
        if is_directory(argument) {
            recipes.extend(files(argument)?);
        } else {
            recipes.push(argument.clone());
        }
    }
    Ok(recipes)
}

fn files(directory: &str) -> Result<Vec<String>, RenderUsageError> {
    let refusal = |message: String, hint: Option<&'static str>| RenderUsageError {
        message,
        hint: hint.map(Cow::Borrowed),
        code: ExitCode::Input,
    };
    let unreadable = |error: std::io::Error| {
        refusal(format!("unable to read the directory `{directory}`: {error}"), None)
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let is_recipe =
            path.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known));
        if is_recipe && !path.is_dir() {
            match path.to_str() {
                Some(path) => files.push(path.to_owned()),
                None => {
                    return Err(refusal(
                        format!("the name of `{}` is not UTF-8", path.display()),
                        Some("rename the file"),
                    ));
                }
            }
        }
    }
    if files.is_empty() {
        let message = format!(
            "the directory `{directory}` holds no recipe: no file in it ends in .yaml or .yml"
        );
        return Err(refusal(
            message,
            Some(
                "name the directory that the files stand in; its subdirectories are not looked at",
            ),
        ));
    }
    files.sort();
    Ok(files)
}
