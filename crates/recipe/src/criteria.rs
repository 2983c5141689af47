//! Finds recipes of the library by what they are for.

use serde::Serialize;

use super::load::load;
use super::model::RecipeCriteria;
use super::read::FileSystemReader;
use diagnostics::diagnostic::Diagnostics;
use diagnostics::nearest::nearest;

/// The most recipes that an error names.
const MOST_NAMED: usize = 3;

/// A recipe of the library, as lists show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LibraryRecipe {
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// What it is for.
    pub criteria: RecipeCriteria,
}

/// Why no recipe was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CriteriaError {
    /// No recipe has this value of a criterion.
    #[error("no recipe of the library has the {key} `{value}`")]
    UnknownValue {
        /// The criterion.
        key: &'static str,
        /// The value.
        value: String,
        /// The values that recipes have.
        known: Vec<String>,
    },
    /// Each value is known, but no recipe has all of them.
    #[error("no recipe of the library is for {}", described(.asked))]
    NoRecipe {
        /// What was asked for.
        asked: RecipeCriteria,
        /// The recipes that have most of it.
        nearest: Vec<LibraryRecipe>,
    },
}

impl CriteriaError {
    /// Returns what to do.
    pub fn hint(&self) -> String {
        match self {
            Self::UnknownValue { value, known, .. } => {
                let near = nearest(value, known.iter().map(String::as_str));
                let near = near.map_or_else(String::new, |near| format!("did you mean `{near}`? "));
                format!("{near}known values: {}", known.join(", "))
            }
            Self::NoRecipe { nearest, .. } => {
                let recipes = nearest
                    .iter()
                    .map(|recipe| format!("`{}` ({})", recipe.name, described(&recipe.criteria)));
                format!("nearest: {}", recipes.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

impl RecipeCriteria {
    /// Returns each criterion with its key.
    pub fn entries(&self) -> [(&'static str, Option<&str>); 4] {
        [
            ("service", self.service.as_deref()),
            ("accelerator", self.accelerator.as_deref()),
            ("intent", self.intent.as_deref()),
            ("os", self.os.as_deref()),
        ]
    }

    /// Counts the criteria of `asked` that this recipe has.
    fn equal_to(&self, asked: &Self) -> usize {
        let pairs = self.entries().into_iter().zip(asked.entries());
        pairs.filter(|((_, own), (_, asked))| asked.is_some() && own == asked).count()
    }
}

fn described(criteria: &RecipeCriteria) -> String {
    let words = criteria.entries().into_iter().filter_map(|(key, value)| {
        let value = value?;
        Some(format!("{key} {value}"))
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Returns all recipes of the library, by name.
///
/// # Errors
/// A recipe of the library is not valid, which is a bug.
pub fn library() -> Result<Vec<LibraryRecipe>, Diagnostics> {
    catalog::recipe_names()
        .map(|name| {
            let metadata = load(name, &[], &mut FileSystemReader)?.recipe.metadata;
            Ok(LibraryRecipe {
                name: name.to_owned(),
                description: metadata.description.unwrap_or_default(),
                criteria: metadata.criteria,
            })
        })
        .collect()
}

/// Returns the recipes that have every criterion of `asked`.
///
/// # Errors
/// There is none; see [`CriteriaError`].
pub fn select(
    recipes: &[LibraryRecipe],
    asked: &RecipeCriteria,
) -> Result<Vec<LibraryRecipe>, CriteriaError> {
    for (index, (key, value)) in asked.entries().into_iter().enumerate() {
        let Some(value) = value else { continue };
        let values = recipes.iter().filter_map(|recipe| recipe.criteria.entries()[index].1);
        let mut known: Vec<String> = values.map(str::to_owned).collect();
        known.sort();
        known.dedup();
        if !known.iter().any(|known| known == value) {
            return Err(CriteriaError::UnknownValue { key, value: value.to_owned(), known });
        }
    }
    let wanted = asked.entries().into_iter().filter(|(_, value)| value.is_some()).count();
    let with = |count: usize| -> Vec<LibraryRecipe> {
        let has = |recipe: &&LibraryRecipe| recipe.criteria.equal_to(asked) == count;
        recipes.iter().filter(has).cloned().collect()
    };
    let found = with(wanted);
    if !found.is_empty() {
        return Ok(found);
    }
    // Each value is known, so some recipe has one of them.
    let most = recipes.iter().map(|recipe| recipe.criteria.equal_to(asked)).max();
    let mut nearest = with(most.unwrap_or_default());
    nearest.truncate(MOST_NAMED);
    Err(CriteriaError::NoRecipe { asked: asked.clone(), nearest })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn criteria(texts: [&str; 4]) -> RecipeCriteria {
        let [service, accelerator, intent, os] =
            texts.map(|text| (!text.is_empty()).then(|| text.to_owned()));
        RecipeCriteria { service, accelerator, intent, os }
    }

    fn recipes() -> Vec<LibraryRecipe> {
        [
            ("base", ["", "", "", ""]),
            ("eks-a", ["eks", "gb200", "training", "ubuntu"]),
            ("eks-b", ["eks", "h100", "training", "ubuntu"]),
            ("gke-a", ["gke", "h100", "inference", "cos"]),
        ]
        .map(|(name, texts)| LibraryRecipe {
            name: name.to_owned(),
            description: String::new(),
            criteria: criteria(texts),
        })
        .to_vec()
    }

    fn names(asked: [&str; 4]) -> Result<Vec<String>, CriteriaError> {
        let found = select(&recipes(), &criteria(asked))?;
        Ok(found.into_iter().map(|recipe| recipe.name).collect())
    }

    #[test]
    fn recipes_with_every_asked_criterion_are_found() {
        assert_eq!(names(["eks", "gb200", "training", "ubuntu"]).unwrap(), ["eks-a"]);
        assert_eq!(names(["eks", "", "", ""]).unwrap(), ["eks-a", "eks-b"]);
        assert_eq!(names(["", "h100", "", ""]).unwrap(), ["eks-b", "gke-a"]);
        assert_eq!(names(["", "", "", ""]).unwrap().len(), 4);
    }

    #[test]
    fn unknown_value_is_refused_with_known_ones() {
        let error = names(["", "gb20", "", ""]).unwrap_err();
        let CriteriaError::UnknownValue { key, known, .. } = &error else { panic!("{error:?}") };
        assert_eq!(
            (*key, &known[..]),
            ("accelerator", &["gb200".to_owned(), "h100".to_owned()][..])
        );
        assert!(error.hint().contains("`gb200`?"), "{}", error.hint());
    }

    #[test]
    fn nearest_recipe_is_named_without_match() {
        let error = names(["gke", "gb200", "inference", "cos"]).unwrap_err();
        let CriteriaError::NoRecipe { nearest, .. } = &error else { panic!("{error:?}") };
        let names: Vec<&str> = nearest.iter().map(|recipe| recipe.name.as_str()).collect();
        assert_eq!(names, ["gke-a"]);
    }
}
