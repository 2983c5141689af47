use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{from_str, to_string};

/// Texts that parsers of YAML have trouble with.
fn hard_to_write() -> Vec<String> {
    serde_json::from_str(include_str!("../../../../tests/data/texts-hard-to-write.json")).unwrap()
}

fn nasty() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(hard_to_write()),
        any::<char>().prop_map(String::from),
        "[ -~]{0,6}"
    ];
    prop::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat())
}

/// Values of every kind, with texts like those above as keys and leaves.
fn tree() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        6 => nasty().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(nasty(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn written_tree_reads_back_unchanged(value in tree()) {
        let text = to_string(&value).unwrap();
        prop_assert_eq!(from_str::<Value>(&text).unwrap(), value, "{}", text);
    }
}

#[test]
fn nasty_texts_read_back_in_every_place() {
    for text in hard_to_write().iter().chain([&"x".repeat(3000)]) {
        let value = json!({"value": text, "list": [text, [text]], "map": {text: {text: [{text: text}]}}, "all": text});
        let written = to_string(&value).unwrap();
        assert_eq!(from_str::<Value>(&written).unwrap(), value, "{written}");
        assert_eq!(from_str::<Value>(&inline(&value)).unwrap(), value, "{text:?}");
        assert_eq!(
            from_str::<Value>(&to_string(&json!(text)).unwrap()).unwrap(),
            json!(text),
            "{text:?}"
        );
    }
}

#[test]
fn text_that_parsers_change_is_quoted_with_escapes() {
    for (text, expected) in [
        ("\ta\nb", r#""\ta\nb""#),
        ("\u{a0}", r#""\u00a0""#),
        ("\n ", r#""\n ""#),
        ("a\u{2028}b", r#""a\u2028b""#),
        ("\u{10ffff}", r#""\U0010ffff""#),
        ("yes", r#""yes""#),
        ("580.10", r#""580.10""#),
        ("25%", "25%"),
        ("v1.2.3", "v1.2.3"),
    ] {
        assert_eq!(to_string(&json!({"a": text})).unwrap(), format!("a: {expected}\n"));
    }
}

/// Regression: helmfile resolved references in values. `ref+exec` ran a command on the machine that
/// deploys.
#[test]
fn reference_of_helmfile_is_never_in_the_bytes() {
    for text in [
        "ref+exec://touch/injected",
        "secretref+echo://x",
        "a\nref+echo://x\n",
        "{\"a\": \"ref+echo://x\"}",
        "ref+ref+",
        "\ref+",
        "\\ref+",
    ] {
        let value = json!({text: text, "list": [text, {text: [text]}]});
        for written in [to_string(&value).unwrap(), inline(&value), quoted(text)] {
            assert!(!written.contains(REFERENCE), "{written}");
        }
        assert_eq!(from_str::<Value>(&to_string(&value).unwrap()).unwrap(), value, "{text:?}");
        assert_eq!(from_str::<Value>(&inline(&value)).unwrap(), value, "{text:?}");
    }
    assert_eq!(to_string(&json!("ref+echo://x")).unwrap(), "\"ref\\u002becho://x\"\n");
    assert_eq!(
        to_string(&json!(["reference + b", "1+ref"])).unwrap(),
        "- reference + b\n- 1+ref\n"
    );
}

#[test]
fn number_with_exponent_has_dot_and_sign() {
    assert_eq!(
        to_string(&json!([1e16, 1.5e300, 1e-7, 1.0])).unwrap(),
        "- 1.0e+16\n- 1.5e+300\n- 1.0e-7\n- 1.0\n"
    );
}
