//! Finds the images in a template of objects, line by line, because a template is not YAML.

/// A line with the key `image`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ImageLine<'a> {
    /// The value as written, without quotes.
    pub(crate) written: &'a str,
    /// The image; `None` if only the evaluation of the template shows it.
    pub(crate) reference: Option<&'a str>,
    /// The value of the key `version` next to it, which some custom resources have instead of a
    /// tag.
    pub(crate) version: Option<&'a str>,
}

/// A line `key: value` of a map or of a list item.
struct KeyLine<'a> {
    indent: usize,
    key: &'a str,
    value: &'a str,
}

impl<'a> KeyLine<'a> {
    fn new(line: &'a str) -> Option<Self> {
        let (key, value) = line.split_once(':')?;
        let name = key.trim_start_matches([' ', '-']);
        let value = value.split(" #").next().unwrap_or_default().trim();
        Some(Self {
            indent: key.len() - name.len(),
            key: name,
            value: value.trim_matches(['"', '\'']),
        })
    }
}

/// Returns the lines with images, in order.
pub(crate) fn image_lines(text: &str) -> Vec<ImageLine<'_>> {
    let lines: Vec<&str> = text.lines().collect();
    let images = lines.iter().enumerate().filter_map(|(number, line)| {
        let line =
            KeyLine::new(line).filter(|line| line.key == "image" && !line.value.is_empty())?;
        let is_literal = !line.value.contains("{{");
        Some(ImageLine {
            written: line.value,
            reference: is_literal.then_some(line.value),
            version: version_next_to(&lines, number, line.indent),
        })
    });
    images.collect()
}

/// Returns the value of the key `version` in the same map as the line `number`.
fn version_next_to<'a>(lines: &[&'a str], number: usize, indent: usize) -> Option<&'a str> {
    let is_inside = |line: &str| {
        let depth = line.len() - line.trim_start_matches([' ', '-']).len();
        line.trim().is_empty() || depth >= indent
    };
    // Whether the line is the first one of a list item with a map of this indentation.
    let starts = |line: &str| {
        line.find("- ").is_some_and(|dash| line[..dash].trim().is_empty() && dash + 2 == indent)
    };
    let first = (0..=number).rev().take_while(|at| is_inside(lines[*at]));
    let first = first.map(|at| (at, starts(lines[at]))).collect::<Vec<_>>();
    let first =
        first.iter().find(|(_, starts)| *starts).or(first.last()).map_or(number, |(at, _)| *at);
    let rest =
        lines[number + 1..].iter().take_while(|line| is_inside(line) && !starts(line)).count();
    lines[first..=number + rest].iter().find_map(|line| {
        let line =
            KeyLine::new(line).filter(|line| line.indent == indent && line.key == "version")?;
        (!line.value.contains("{{")).then_some(line.value)
    })
}

/// Returns the text with other images; `None` from `replace` keeps an image.
pub(crate) fn with_images(text: &str, replace: impl Fn(&str) -> Option<String>) -> String {
    let mut changed = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let image = image_lines(line).into_iter().next().and_then(|image| image.reference);
        match image.and_then(|image| Some((image, replace(image)?))) {
            Some((image, new)) => changed.push_str(&line.replacen(image, &new, 1)),
            None => changed.push_str(line),
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "spec:\n  packages:\n    setup:\n      image: r.example.com/a/setup\n      version: \"0.2.1\"\n    tuned:\n      version: 1.1.1\n      image: r.example.com/a/tuned\n  containers:\n    - name: x\n      image: \"r.example.com/b@sha256:0a\" # pinned\n    - image: ubuntu\n      name: y\n    - image: {{ .Values.image }}\n";

    #[test]
    fn images_are_found_with_the_version_next_to_them() {
        let found: Vec<_> = image_lines(TEXT)
            .into_iter()
            .map(|line| (line.reference.unwrap_or("none"), line.version.unwrap_or("none")))
            .collect();
        let expected = [
            ("r.example.com/a/setup", "0.2.1"),
            ("r.example.com/a/tuned", "1.1.1"),
            ("r.example.com/b@sha256:0a", "none"),
            ("ubuntu", "none"),
            ("none", "none"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn only_images_are_replaced() {
        let changed = with_images(TEXT, |image| Some(format!("mirror/{image}")));
        assert_eq!(changed.matches("mirror/").count(), 4, "{changed}");
        assert_eq!(changed.replace("mirror/", ""), TEXT);
    }
}
