//! Input of a conversation: messages, and commands that begin with a slash.

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Reset,
    History,
    Save,
    Help,
    Quit,
}

/// A command's name, argument and help.
struct Row {
    command: Command,
    name: &'static str,
    /// The argument after the name; empty for none.
    argument: &'static str,
    does: &'static str,
}

const COMMANDS: [Row; 5] = [
    Row { command: Command::Reset, name: "/reset", argument: "", does: "forgets the conversation" },
    Row { command: Command::History, name: "/history", argument: "", does: "shows it" },
    Row { command: Command::Save, name: "/save", argument: "FILE", does: "writes it as text" },
    Row { command: Command::Help, name: "/help", argument: "", does: "shows this" },
    Row {
        command: Command::Quit,
        name: "/quit",
        argument: "",
        does: "ends (so does Ctrl-D); Ctrl-C stops an answer, or clears the line",
    },
];

/// Other names of commands.
const ALIASES: [(&str, Command); 1] = [("/exit", Command::Quit)];

/// A parsed line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input<'a> {
    Nothing,
    Message(&'a str),
    /// A command and the rest of its line.
    Command(Command, &'a str),
    /// A name that no command has.
    Unknown(&'a str),
}

impl<'a> Input<'a> {
    pub(super) fn parse(line: &'a str) -> Self {
        let line = line.trim();
        if line.is_empty() {
            return Self::Nothing;
        }
        if !line.starts_with('/') {
            return Self::Message(line);
        }
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let names = COMMANDS.iter().map(|row| (row.name, row.command)).chain(ALIASES);
        match names.into_iter().find(|(known, _)| *known == name) {
            Some((_, command)) => Self::Command(command, rest.trim()),
            None => Self::Unknown(name),
        }
    }
}

/// Returns a line of help per command.
pub(super) fn help() -> impl Iterator<Item = String> {
    COMMANDS.iter().map(|row| format!("{:<12}  {}", format!("{} {}", row.name, row.argument).trim_end(), row.does))
}

/// Returns the commands that begin as typed, with a space where an argument follows.
pub(super) fn completions(typed: &str) -> Vec<String> {
    let matching = COMMANDS.iter().filter(|row| typed.starts_with('/') && row.name.starts_with(typed));
    matching.map(|row| if row.argument.is_empty() { row.name.to_owned() } else { format!("{} ", row.name) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_message_or_a_command() {
        for (line, expected) in [
            ("", Input::Nothing),
            (" \n", Input::Nothing),
            ("  What is 1/2?\n", Input::Message("What is 1/2?")),
            ("/reset", Input::Command(Command::Reset, "")),
            ("/quit\r\n", Input::Command(Command::Quit, "")),
            ("/exit", Input::Command(Command::Quit, "")),
            ("/save  my notes.txt \n", Input::Command(Command::Save, "my notes.txt")),
            ("/save", Input::Command(Command::Save, "")),
            ("/saved.txt", Input::Unknown("/saved.txt")),
            ("/", Input::Unknown("/")),
        ] {
            assert_eq!(Input::parse(line), expected, "{line:?}");
        }
    }

    #[test]
    fn every_command_is_in_the_help_and_is_completed() {
        let help: Vec<String> = help().collect();
        assert_eq!(help.len(), COMMANDS.len());
        for (row, line) in COMMANDS.iter().zip(&help) {
            assert!(line.starts_with(row.name) && line.ends_with(row.does), "{line}");
            assert_eq!(Input::parse(row.name), Input::Command(row.command, ""));
            assert!(completions(&row.name[..2]).iter().any(|found| found.trim_end() == row.name), "{}", row.name);
        }
    }

    #[test]
    fn only_commands_are_completed() {
        assert_eq!(completions("/h"), ["/history", "/help"]);
        assert_eq!(completions("/s"), ["/save "]);
        assert_eq!(completions("/save x"), Vec::<String>::new());
        assert_eq!(completions(""), Vec::<String>::new());
        assert_eq!(completions("help"), Vec::<String>::new());
    }
}
