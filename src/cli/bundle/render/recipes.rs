//! Resolves the arguments of `--recipe`.

use std::borrow::Cow;
use std::path::Path;

use super::RenderUsageError;
use contract::exit::ExitCode;

/// The extensions of recipe files.
const ENDINGS: [&str; 2] = ["yaml", "yml"];

/// Returns whether an argument is a directory of recipes. A name of the library takes precedence
/// over a directory of the same name.
pub(super) fn is_directory(argument: &str) -> bool {
    !catalog::recipe_names().any(|name| name == argument) && Path::new(argument).is_dir()
}

/// Returns the recipes to load: arguments in their order, the files of a directory sorted by name.
pub(super) fn list(arguments: &[String]) -> Result<Vec<String>, RenderUsageError> {
    if arguments.iter().filter(|argument| *argument == "-").count() > 1 {
        return Err(RenderUsageError::usage(
            "`--recipe -` is given twice, but standard input can be read only once".to_owned(),
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
        refusal(format!("cannot read the directory `{directory}`: {error}"), None)
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let is_recipe =
            path.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known));
        // Neither a directory nor what could block: links to files are fine.
        if is_recipe && path.is_file() {
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
            "the directory `{directory}` contains no recipe: it has no file with the extension .yaml or .yml"
        );
        return Err(refusal(
            message,
            Some("name the directory that contains the files; subdirectories are not searched"),
        ));
    }
    files.sort();
    Ok(files)
}
