//! Checks `devices` of a shared resource, which the plugin validates and then ignores.

use super::go;
use diagnostics::tree::YamlNode;

/// Checks the value.
///
/// # Errors
/// The plugin's message for a value that it refuses.
pub(super) fn check(node: &YamlNode) -> Result<(), String> {
    let text = if node.is_null() { Some("") } else { node.text() };
    if let Some(text) = text {
        let message =
            || format!("devices set as '{text}' but the only valid string input is 'all'");
        return if text == "all" { Ok(()) } else { Err(message()) };
    }
    if let Some(count) = go::whole(node) {
        let message = || format!("devices set as '{count}' but a count of devices must be > 0");
        return if count > 0 { Ok(()) } else { Err(message()) };
    }
    match node.list() {
        Some(items) => items.iter().try_for_each(device),
        None => Err(format!("unrecognized type for devices spec: {}", go::json(node))),
    }
}

fn device(node: &YamlNode) -> Result<(), String> {
    // The plugin reads a null device as index 0.
    if node.is_null() || go::whole(node).is_some_and(|index| index >= 0) {
        return Ok(());
    }
    let text = node.text().unwrap_or_default();
    if is_index(text) || is_mig_index(text) || is_gpu_uuid(text) || is_mig_uuid(text) {
        return Ok(());
    }
    Err(format!("unsupported type for device in devices list: {text}, string"))
}

fn is_index(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_digit())
        && text.parse::<u64>().is_ok()
}

fn is_mig_index(text: &str) -> bool {
    text.split_once(':').is_some_and(|(gpu, instance)| is_index(gpu) && is_index(instance))
}

fn is_gpu_uuid(text: &str) -> bool {
    text.strip_prefix("GPU-").is_some_and(is_uuid)
}

/// Whether a text is `MIG-<uuid>`, or the older `MIG-GPU-<uuid>/3/0`.
fn is_mig_uuid(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("MIG-") else { return false };
    let parts: Vec<&str> = rest.splitn(3, '/').collect();
    is_uuid(rest)
        || matches!(parts[..], [gpu, instance, compute] if is_gpu_uuid(gpu) && is_index(instance) && is_index(compute))
}

/// Whether a text is a UUID with or without dashes, in braces, or as a URN.
fn is_uuid(text: &str) -> bool {
    let bare = match text.len() {
        45 if text.get(..9).is_some_and(|start| start.eq_ignore_ascii_case("urn:uuid:")) => {
            &text[9..]
        }
        38 => text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text),
        _ => text,
    };
    let is_dash = |index: usize| bare.len() == 36 && [8, 13, 18, 23].contains(&index);
    let fits = |(index, byte): (usize, u8)| {
        if is_dash(index) { byte == b'-' } else { byte.is_ascii_hexdigit() }
    };
    [32, 36].contains(&bare.len()) && bare.bytes().enumerate().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_an_index_or_a_uuid() {
        let uuid = "b1028956-cfa2-0990-bf4a-5da9abb51763";
        let plain = uuid.replace('-', "");
        for good in [uuid, &plain, &format!("{{{uuid}}}"), &format!("urn:uuid:{uuid}")] {
            assert!(is_uuid(good), "{good}");
        }
        for bad in [
            "",
            "x",
            &uuid[1..],
            &format!("{uuid}0"),
            &uuid.replace('b', "g"),
            "ürn:uuid:b1028956-cfa2-0990-bf4a-5da9abb51763",
        ] {
            assert!(!is_uuid(bad), "{bad}");
        }
        assert!(
            is_mig_index("1:0")
                && !is_mig_index("1:")
                && !is_mig_index("-1:0")
                && is_mig_uuid(&format!("MIG-GPU-{uuid}/3/0"))
        );
    }
}
