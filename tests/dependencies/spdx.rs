//! License expressions: names with `WITH`, joined by `AND`, `OR` (or the older `/`) and parentheses.

use std::collections::BTreeSet;

/// The allowed licenses that an expression can be met with; `None`: it cannot.
pub(crate) fn choose(expression: &str, allowed: &BTreeSet<&str>) -> Option<BTreeSet<String>> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let chosen = either(&words, &mut at, allowed);
    if at == words.len() { chosen } else { None }
}

fn either(words: &[&str], at: &mut usize, allowed: &BTreeSet<&str>) -> Option<BTreeSet<String>> {
    let mut chosen = both(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        let other = both(words, at, allowed);
        chosen = chosen.or(other);
    }
    chosen
}

fn both(words: &[&str], at: &mut usize, allowed: &BTreeSet<&str>) -> Option<BTreeSet<String>> {
    let mut chosen = one(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        let other = one(words, at, allowed);
        chosen = chosen.zip(other).map(|(mut chosen, other)| {
            chosen.extend(other);
            chosen
        });
    }
    chosen
}

fn one(words: &[&str], at: &mut usize, allowed: &BTreeSet<&str>) -> Option<BTreeSet<String>> {
    let word = *words.get(*at)?;
    *at += 1;
    if word == "(" {
        let chosen = either(words, at, allowed);
        *at += 1;
        return chosen;
    }
    let mut name = word.to_owned();
    if words.get(*at) == Some(&"WITH") {
        name = format!("{name} WITH {}", words.get(*at + 1)?);
        *at += 2;
    }
    allowed.contains(name.as_str()).then(|| BTreeSet::from([name]))
}

#[test]
fn expressions_are_met_or_not() {
    let allowed = BTreeSet::from(["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"]);
    for expression in
        ["MIT", "GPL-3.0 OR MIT", "Unlicense/MIT", "(GPL-3.0 OR MIT) AND ISC", "Apache-2.0 WITH LLVM-exception", "GPL-3.0 AND ISC OR MIT"]
    {
        assert!(choose(expression, &allowed).is_some(), "{expression}");
    }
    for expression in ["", "GPL-3.0", "MIT AND GPL-3.0", "Apache-2.0", "(MIT OR ISC) AND GPL-3.0", "MIT WITH Font-exception-2.0"] {
        assert!(choose(expression, &allowed).is_none(), "{expression}");
    }
}
