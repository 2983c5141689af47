//! Recognizes recipes by their text, before it is parsed.

use super::aicr;

/// Returns whether a line of the text says that it is a recipe, of this program or of AICR. The
/// text need not be valid YAML. Findings show excerpts only of such texts: any other text may be a
/// file that the user did not intend to show.
pub(crate) fn looks_like_recipe(text: &str) -> bool {
    let without = |text: &str, more: &str| {
        let is_before = |one: char| one.is_whitespace() || more.contains(one);
        text.trim_start_matches(is_before).to_owned()
    };
    text.lines().flat_map(|line| line.split(',')).any(|part| {
        let part = without(part, "{\"'\u{feff}-");
        let value = |key: &str| {
            let rest = part.strip_prefix(key)?.trim_start_matches(['"', '\'']).trim_start();
            Some(without(rest.strip_prefix(':')?, "\"'"))
        };
        value("apiVersion").is_some_and(|value| {
            value.starts_with("gpu-rollout.dev/") || aicr::is_api_version(&value)
        }) || value("kind").is_some_and(|value| value.starts_with("Recipe"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipe_is_told_from_other_texts() {
        for recipe in [
            "apiVersion: gpu-rollout.dev/v1\nx: [",
            "# comment\nkind: Recipe\n",
            "{\"kind\": \"Recipe\", \"apiVersion\": \"gpu-rollout.dev/v1\"}",
            "{a: b, kind: 'RecipeResult'}",
            "apiVersion: aicr.run/v1alpha2",
        ] {
            assert!(looks_like_recipe(recipe), "{recipe}");
        }
        for other in [
            "",
            "root:x:0:0:root:/root:/bin/sh",
            "HOME=/root\0KIND=Recipe\0",
            "kind: Secret\napiVersion: v1\ndata: {recipe: gpu-rollout.dev/v1}",
            "password: gpu-rollout.dev/v1",
        ] {
            assert!(!looks_like_recipe(other), "{other}");
        }
    }
}
