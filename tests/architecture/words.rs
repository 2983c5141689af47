//! Rust source as words: names and punctuation with their lines; comments and the text of strings left out.

/// A name, or one character of punctuation (`::` is one word).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// The text.
    pub(crate) text: String,
    /// Its line, from 1.
    pub(crate) line: usize,
}

/// The words of a file.
pub(crate) fn words(source: &str) -> Vec<Word> {
    let characters: Vec<char> = source.chars().collect();
    let mut reader = Reader { characters: &characters, at: 0, line: 1 };
    let mut words = Vec::new();
    while let Some(word) = reader.next_word() {
        words.push(word);
    }
    words
}

struct Reader<'a> {
    characters: &'a [char],
    at: usize,
    line: usize,
}

impl Reader<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.characters.get(self.at + ahead).copied()
    }

    fn step(&mut self) -> Option<char> {
        let character = self.peek(0)?;
        self.at += 1;
        if character == '\n' {
            self.line += 1;
        }
        Some(character)
    }

    fn next_word(&mut self) -> Option<Word> {
        loop {
            let line = self.line;
            let character = self.step()?;
            match (character, self.peek(0)) {
                ('/', Some('/')) => while self.step().is_some_and(|character| character != '\n') {},
                ('/', Some('*')) => self.block_comment(),
                ('"', _) => self.string(),
                ('\'', _) => self.character_or_lifetime(),
                (':', Some(':')) => {
                    self.step();
                    return Some(Word { text: "::".to_owned(), line });
                }
                (character, next) if character.is_alphanumeric() || character == '_' => {
                    if character == 'r' && matches!(next, Some('"' | '#')) && self.raw_string() {
                        continue;
                    }
                    let mut text = String::from(character);
                    while let Some(more) = self.peek(0).filter(|more| more.is_alphanumeric() || *more == '_') {
                        text.push(more);
                        self.step();
                    }
                    return Some(Word { text, line });
                }
                (character, _) if character.is_whitespace() => {}
                (character, _) => return Some(Word { text: character.to_string(), line }),
            }
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 1;
        self.step();
        while depth > 0 {
            match (self.step(), self.peek(0)) {
                (Some('*'), Some('/')) => {
                    self.step();
                    depth -= 1;
                }
                (Some('/'), Some('*')) => {
                    self.step();
                    depth += 1;
                }
                (None, _) => return,
                _ => {}
            }
        }
    }

    fn string(&mut self) {
        while let Some(character) = self.step() {
            match character {
                '\\' => {
                    self.step();
                }
                '"' => return,
                _ => {}
            }
        }
    }

    /// After an `r`: passes over a raw string; false if it was a raw name.
    fn raw_string(&mut self) -> bool {
        let hashes = self.characters[self.at..].iter().take_while(|character| **character == '#').count();
        if self.peek(hashes) != Some('"') {
            return false;
        }
        for _ in 0..=hashes {
            self.step();
        }
        while let Some(character) = self.step() {
            if character == '"' && (0..hashes).all(|ahead| self.peek(ahead) == Some('#')) {
                for _ in 0..hashes {
                    self.step();
                }
                return true;
            }
        }
        true
    }

    /// After a `'`: passes over a character; a lifetime's name is read as a word, which harms nothing.
    fn character_or_lifetime(&mut self) {
        if self.peek(0) == Some('\\') {
            self.step();
            self.step();
            while self.step().is_some_and(|character| character != '\'') {}
        } else if self.peek(1) == Some('\'') {
            self.step();
            self.step();
        }
    }
}

#[test]
fn comments_and_strings_are_no_words() {
    let source = "a::b // c\n/* d /* e */ f */ \"g \\\" h\" r#\"i \" j\"# 'k' '\\'' &'l m r#type";
    let texts: Vec<String> = words(source).into_iter().map(|word| word.text).collect();
    assert_eq!(texts, ["a", "::", "b", "&", "l", "m", "r", "#", "type"]);
}
