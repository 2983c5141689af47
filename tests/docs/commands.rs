//! The program accepts every command, with its options, in the shell blocks of the pages.

use clap::CommandFactory as _;
use clap::error::ErrorKind;
use gpu_rollout::cli::Cli;

use super::links::pages;
use crate::root;

/// Words that may precede a command in a shell.
const KEYWORDS: [&str; 8] = ["!", "do", "else", "if", "then", "time", "until", "while"];

/// The values of the variables in pages.
const VARIABLES: [(&str, &str); 2] = [
    ("$CHARTS", "https://charts.example.com"),
    ("$HOOK_IMAGE", "registry.example.com/gpu-rollout:0.1.0"),
];

/// Returns the words of each call of the program in a shell line, without pipes to other commands,
/// redirections and comments.
fn commands(line: &str) -> Vec<Vec<String>> {
    let (mut all, mut words, mut word, mut quote) =
        (Vec::new(), Vec::new(), None::<String>, None::<char>);
    let mut characters = line.chars().peekable();
    // The target of a redirection is not a word of the command.
    let mut redirected = false;
    let end = |word: &mut Option<String>, words: &mut Vec<String>, redirected: &mut bool| {
        if let Some(word) = word.take()
            && !std::mem::take(redirected)
        {
            words.push(word);
        }
    };
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, '\\') => word.get_or_insert_default().extend(characters.next()),
            (None, '#') if word.is_none() => break,
            (None, '|' | ';' | '&' | '(' | ')') => {
                end(&mut word, &mut words, &mut redirected);
                all.push(std::mem::take(&mut words));
                // The content of `<(…)` is a command.
                redirected = false;
            }
            (None, '>' | '<') => {
                // The number before it is a file descriptor.
                if word.as_ref().is_some_and(|word| word.chars().all(|one| one.is_ascii_digit())) {
                    word = None;
                }
                end(&mut word, &mut words, &mut redirected);
                redirected = true;
            }
            (None, _) if character.is_whitespace() => end(&mut word, &mut words, &mut redirected),
            _ => word.get_or_insert_default().push(character),
        }
    }
    end(&mut word, &mut words, &mut redirected);
    all.push(words);
    let is_before = |word: &String| KEYWORDS.contains(&word.as_str()) || word.contains('=');
    let commands = all
        .into_iter()
        .map(|words: Vec<String>| words.into_iter().skip_while(is_before).collect::<Vec<_>>());
    commands.filter(|words| words.first().is_some_and(|word| word == "gpu-rollout")).collect()
}

/// Returns the lines of the shell blocks of a page, with their numbers.
fn lines(page: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let (mut inside, mut goes_on) = (false, false);
    for (number, line) in page.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            inside = !inside && line.trim_start() == "```sh";
            goes_on = false;
        } else if inside {
            let text = line.strip_suffix('\\').unwrap_or(line);
            match lines.last_mut().filter(|_| goes_on) {
                Some((_, started)) => started.push_str(text),
                None => lines.push((number + 1, text.to_owned())),
            }
            goes_on = line.ends_with('\\');
        }
    }
    lines
}

#[test]
fn pages_name_only_existing_commands() {
    let (mut seen, mut findings) = (0, Vec::new());
    for page in pages() {
        let text = std::fs::read_to_string(root(&page)).unwrap();
        for (number, line) in lines(&text) {
            let line = VARIABLES.iter().fold(line, |line, (name, value)| line.replace(name, value));
            for words in commands(&line) {
                seen += 1;
                let parsed = Cli::command().try_get_matches_from(&words);
                let wrong = parsed.err().filter(|error| {
                    !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion)
                });
                findings.extend(
                    wrong.map(|error| format!("{page}:{number}: {}\n{error}", words.join(" "))),
                );
            }
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
    assert!(seen > 40, "only {seen} commands were found");
}

#[test]
fn words_are_those_of_a_shell() {
    let words = |line: &str| {
        commands(line).into_iter().map(|words| words[1..].to_vec()).collect::<Vec<_>>()
    };
    assert_eq!(
        words("gpu-rollout why 'gpu 3' -o json | jq . # all of it"),
        [["why", "gpu 3", "-o", "json"]]
    );
    assert_eq!(
        words("until gpu-rollout status 2>&1 >out; do gpu-rollout preflight; done"),
        [["status"], ["preflight"]]
    );
    assert_eq!(words("source <(gpu-rollout completions bash)"), [["completions", "bash"]]);
    assert_eq!(words("make stack"), Vec::<Vec<String>>::new());
}
