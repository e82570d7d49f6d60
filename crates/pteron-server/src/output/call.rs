//! One call of a tool: a JSON object with the tool's name and its arguments, read character by character.

/// What a character completes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CallEvent {
    /// The tool's name is known.
    Name(String),
    /// A piece of the arguments.
    Arguments(String),
    /// The call is complete.
    End,
    /// It is no call: the text is content.
    NoCall(String),
}

/// The keys under which templates have models write a call.
const NAME: &str = "name";
const ARGUMENTS: [&str; 2] = ["arguments", "parameters"];
/// Keys with nothing that clients see.
const IGNORED: [&str; 2] = ["type", "id"];
/// The most characters before the name is known. Arguments may come first.
const MAX_HELD: usize = 64 << 10;

/// Where in the object the next character stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// Before the object, a key, a colon or a value.
    Start,
    Key,
    InKey,
    Colon,
    Value,
    InValue,
    /// After a value: a comma or the end.
    After,
    Done,
}

/// The fields of a call that mean something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Name,
    Arguments,
    Ignored,
}

/// Reads a call.
#[derive(Debug)]
pub(super) struct CallScanner {
    /// The names of tools; any, if absent.
    names: Option<Vec<String>>,
    at: At,
    field: Field,
    /// All text until the name is known.
    raw: String,
    /// The key or the name so far, with its quotes.
    word: String,
    name_known: bool,
    /// Arguments that came before the name.
    early: String,
    had_arguments: bool,
    /// Of the value: its depth, whether the character stands in a string, after a backslash, and whether all of it is a string.
    depth: usize,
    in_string: bool,
    escaped: bool,
    is_text: bool,
    /// The escape sequence so far, of arguments that are a string.
    escape: String,
    surrogate: Option<u32>,
}

impl CallScanner {
    pub(super) fn new(names: Option<Vec<String>>) -> Self {
        Self {
            names,
            at: At::Start,
            field: Field::Ignored,
            raw: String::new(),
            word: String::new(),
            name_known: false,
            early: String::new(),
            had_arguments: false,
            depth: 0,
            in_string: false,
            escaped: false,
            is_text: false,
            escape: String::new(),
            surrogate: None,
        }
    }

    /// Takes the next character.
    pub(super) fn push(&mut self, c: char) -> Vec<CallEvent> {
        let mut events = Vec::new();
        if !self.name_known {
            self.raw.push(c);
            if self.raw.len() > MAX_HELD {
                return self.no_call();
            }
        }
        let fits = match self.at {
            At::InKey => self.take_key(c),
            At::InValue => self.take_value(c, &mut events),
            _ if c.is_whitespace() => true,
            At::Start => self.expect(c, '{', At::Key),
            At::Key => self.begin_key(c),
            At::Colon => self.expect(c, ':', At::Value),
            At::Value => self.begin_value(c, &mut events),
            At::After => self.after_value(c, &mut events),
            At::Done => false,
        };
        if fits {
            return events;
        }
        if !self.name_known {
            return self.no_call();
        }
        // A call that is broken off after its name stays one; the client sees arguments that are no JSON.
        events.push(CallEvent::End);
        events
    }

    /// Ends the text.
    pub(super) fn finish(&mut self) -> Vec<CallEvent> {
        if self.name_known { vec![CallEvent::End] } else { self.no_call() }
    }

    fn no_call(&mut self) -> Vec<CallEvent> {
        vec![CallEvent::NoCall(std::mem::take(&mut self.raw))]
    }

    fn expect(&mut self, c: char, wanted: char, next: At) -> bool {
        self.at = next;
        c == wanted
    }

    fn begin_key(&mut self, c: char) -> bool {
        self.word.clear();
        self.word.push('"');
        self.expect(c, '"', At::InKey)
    }

    fn take_key(&mut self, c: char) -> bool {
        self.word.push(c);
        if c != '"' {
            return c != '\\';
        }
        self.at = At::Colon;
        let key = self.word.trim_matches('"');
        self.field = match key {
            NAME => Field::Name,
            key if ARGUMENTS.contains(&key) => Field::Arguments,
            key if IGNORED.contains(&key) => Field::Ignored,
            _ => return false,
        };
        true
    }

    fn begin_value(&mut self, c: char, events: &mut Vec<CallEvent>) -> bool {
        (self.depth, self.in_string, self.escaped) = (0, c == '"', false);
        self.is_text = c == '"';
        self.at = At::InValue;
        self.word.clear();
        match c {
            '"' => self.word.push(c),
            _ if self.field == Field::Name => return false,
            '{' | '[' => {
                self.depth = 1;
                self.argument(c, events);
            }
            ',' | '}' | ']' | ':' => return false,
            _ => self.argument(c, events),
        }
        self.had_arguments |= self.field == Field::Arguments;
        true
    }

    fn take_value(&mut self, c: char, events: &mut Vec<CallEvent>) -> bool {
        if self.in_string {
            return self.take_in_string(c, events);
        }
        match c {
            '"' => self.in_string = true,
            '{' | '[' => self.depth += 1,
            // The end of a number or a word is the comma or the end of the object.
            '}' | ']' | ',' if self.depth == 0 => {
                self.at = At::After;
                return self.after_value(c, events);
            }
            '}' | ']' => self.depth -= 1,
            c if self.depth == 0 && c.is_whitespace() => {
                self.at = At::After;
                return true;
            }
            _ => {}
        }
        self.argument(c, events);
        if self.depth == 0 && matches!(c, '}' | ']') {
            self.at = At::After;
        }
        true
    }

    fn take_in_string(&mut self, c: char, events: &mut Vec<CallEvent>) -> bool {
        let was_escaped = self.escaped;
        self.escaped = !was_escaped && c == '\\';
        let ends = c == '"' && !was_escaped;
        self.in_string = !ends;
        if !self.is_text {
            self.argument(c, events);
            return true;
        }
        if self.field == Field::Name {
            self.word.push(c);
        }
        if ends {
            self.at = At::After;
            return self.field != Field::Name || self.end_name(events);
        }
        if self.field == Field::Arguments {
            self.take_quoted_argument(c, events);
        }
        true
    }

    fn end_name(&mut self, events: &mut Vec<CallEvent>) -> bool {
        let Ok(name) = serde_json::from_str::<String>(&self.word) else { return false };
        let known = self.names.as_ref().is_none_or(|names| names.contains(&name));
        if name.is_empty() || !known || self.name_known {
            return false;
        }
        self.name_known = true;
        self.raw = String::new();
        events.push(CallEvent::Name(name));
        if !self.early.is_empty() {
            events.push(CallEvent::Arguments(std::mem::take(&mut self.early)));
        }
        true
    }

    fn after_value(&mut self, c: char, events: &mut Vec<CallEvent>) -> bool {
        match c {
            ',' => self.expect(c, ',', At::Key),
            '}' if self.name_known => {
                if !self.had_arguments {
                    events.push(CallEvent::Arguments("{}".to_owned()));
                }
                events.push(CallEvent::End);
                self.expect(c, '}', At::Done)
            }
            _ => false,
        }
    }

    /// A character of the arguments.
    fn argument(&mut self, c: char, events: &mut Vec<CallEvent>) {
        if self.field != Field::Arguments {
            return;
        }
        match (self.name_known, events.last_mut()) {
            (false, _) => self.early.push(c),
            (true, Some(CallEvent::Arguments(text))) => text.push(c),
            (true, _) => events.push(CallEvent::Arguments(c.to_string())),
        }
    }

    /// A character of arguments that are written as a string of JSON: the string's content is what clients see.
    fn take_quoted_argument(&mut self, c: char, events: &mut Vec<CallEvent>) {
        if self.escape.is_empty() && c != '\\' {
            return self.argument(c, events);
        }
        self.escape.push(c);
        let hex = self.escape.strip_prefix("\\u");
        let code = match hex {
            Some(hex) if hex.len() < 4 => return,
            Some(hex) => u32::from_str_radix(hex, 16).unwrap_or(0xfffd),
            None if self.escape.len() < 2 => return,
            None => match c {
                'n' => 0x0a,
                't' => 0x09,
                'r' => 0x0d,
                'b' => 0x08,
                'f' => 0x0c,
                other => u32::from(other),
            },
        };
        self.escape.clear();
        match (self.surrogate.take(), code) {
            (None, 0xd800..=0xdbff) => self.surrogate = Some(code),
            (Some(high), 0xdc00..=0xdfff) => {
                let code = 0x1_0000 + ((high - 0xd800) << 10) + (code - 0xdc00);
                self.argument(char::from_u32(code).unwrap_or('\u{fffd}'), events);
            }
            (_, code) => self.argument(char::from_u32(code).unwrap_or('\u{fffd}'), events),
        }
    }
}
