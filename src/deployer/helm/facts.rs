//! Reads `deploy.sh` back, independently of the code that wrote it: which release, in which order, at which version, for how long.

/// One release as the script deploys it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The kind's name.
    pub kind: String,
    /// The release's folder.
    pub folder: String,
    /// Seconds that Helm waits.
    pub timeout_seconds: Option<u64>,
    /// The words behind the timeout.
    pub rest: Vec<String>,
}

impl Step {
    /// The release's name.
    pub fn name(&self) -> &str {
        self.folder.split_once('-').map_or(self.folder.as_str(), |(_, name)| name)
    }
}

/// The releases that the script deploys, in its order.
pub fn steps(script: &str) -> Vec<Step> {
    script
        .lines()
        .filter_map(|line| {
            let words = words(line);
            let [kind, folder, _namespace, timeout, rest @ ..] = words.as_slice() else { return None };
            if !["upstream", "crds", "manifests", "hook"].contains(&kind.as_str()) {
                return None;
            }
            Some(Step { kind: kind.clone(), folder: folder.clone(), timeout_seconds: timeout.parse().ok(), rest: rest.to_vec() })
        })
        .collect()
}

/// Splits a line into words as a POSIX shell does, as far as single quotes and escaped quotes go.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut started, mut quoted) = (String::new(), false, false);
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            '\'' => (quoted, started) = (!quoted, true),
            '\\' if !quoted => word.extend(characters.next()),
            ' ' | '\t' if !quoted => {
                if started || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                started = false;
            }
            other => word.push(other),
        }
    }
    if started || !word.is_empty() {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_a_shell_reads_them() {
        let steps = steps(
            "#!/bin/sh\nupstream() {\n  :\n}\nupstream 003-a ns 600 v1 crds-elsewhere a 'it'\\''s here'\nhook 004-a-post ns 3990 003-a/values.yaml\n",
        );
        assert_eq!(steps.len(), 2);
        assert_eq!((steps[0].name(), steps[0].rest[3].as_str()), ("a", "it's here"));
        assert_eq!(steps[1].timeout_seconds, Some(3990));
    }
}
