//! The order of components: by `after` in the catalog, otherwise the recipe's order.

use super::PlanError;
use catalog::model::CatalogComponent;

/// Sorts `components` so that each comes after the components of its `after`. The sort is stable.
///
/// # Errors
/// Components that wait for each other.
pub(super) fn sort<'a>(
    mut waiting: Vec<&'a CatalogComponent>,
) -> Result<Vec<&'a CatalogComponent>, PlanError> {
    let mut sorted: Vec<&'a CatalogComponent> = Vec::with_capacity(waiting.len());
    while !waiting.is_empty() {
        let free = waiting.iter().position(|candidate| {
            !candidate.after.iter().any(|name| {
                name != &candidate.name && waiting.iter().any(|other| &other.name == name)
            })
        });
        match free {
            Some(index) => sorted.push(waiting.remove(index)),
            None => {
                return Err(PlanError::Circle(
                    waiting.iter().map(|component| component.name.clone()).collect(),
                ));
            }
        }
    }
    Ok(sorted)
}
