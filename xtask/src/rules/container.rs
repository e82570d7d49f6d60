//! The container file is one that can be run in public: a pinned base, no root, a health check, and signals that reach the server.
//!
//! hadolint, which the release runs, checks its form; these are what it cannot know.

use super::{File, Violation};

pub(super) fn check(files: &[File]) -> Vec<Violation> {
    files.iter().filter(|file| file.path.ends_with("/Containerfile")).flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Violation> {
    let instructions = instructions(file.text.as_deref().unwrap_or_default());
    let mut violations = Vec::new();
    let mut say = |line: Option<usize>, message: &str| violations.push(Violation::new(&file.path, line, message));
    let named = |name: &'static str| instructions.iter().filter(move |instruction| instruction.name == name);
    let last = |name: &'static str| named(name).next_back();
    for from in named("FROM") {
        let image = from.words.split(' ').next().unwrap_or_default();
        let tag = image.rsplit('/').next().and_then(|name| name.split_once([':', '@'])).map(|(_, tag)| tag);
        if tag.is_none_or(|tag| tag == "latest") {
            say(Some(from.line), "the base image has no fixed tag");
        }
    }
    if let Some(add) = named("ADD").next() {
        say(Some(add.line), "ADD fetches and unpacks unchecked: COPY a file whose checksum is compared");
    }
    for run in named("RUN").filter(|run| run.words.contains("apt-get install")) {
        if !run.words.contains("--no-install-recommends") || !run.words.contains("rm -rf /var/lib/apt/lists/*") {
            say(Some(run.line), "apt-get installs with --no-install-recommends and without leaving its lists");
        }
    }
    match last("USER") {
        None => say(None, "runs as root: name a USER"),
        Some(user) => {
            // A number, so that Kubernetes can see that it is not root.
            let id = user.words.split(':').next().and_then(|id| id.parse::<u32>().ok());
            if id.is_none_or(|id| id == 0) {
                say(Some(user.line), "the last USER is a number other than 0");
            }
        }
    }
    if last("HEALTHCHECK").is_none_or(|check| !check.words.contains("/ready")) {
        say(None, "has no HEALTHCHECK that asks /ready");
    }
    match last("ENTRYPOINT") {
        Some(entry) if entry.words.starts_with('[') => {}
        // A shell in between would keep SIGTERM to itself.
        Some(entry) => say(Some(entry.line), "ENTRYPOINT is a list, so that no shell keeps SIGTERM from the server"),
        None => say(None, "has no ENTRYPOINT"),
    }
    violations
}

/// An instruction without its continuation lines and comments.
#[derive(Debug, PartialEq)]
pub(crate) struct Instruction {
    pub(crate) line: usize,
    pub(crate) name: String,
    pub(crate) words: String,
}

/// Reads the instructions of a container file.
pub(crate) fn instructions(text: &str) -> Vec<Instruction> {
    let mut found: Vec<Instruction> = Vec::new();
    let mut continues = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let part = line.strip_suffix('\\').unwrap_or(line).trim_end();
        match found.last_mut().filter(|_| continues) {
            Some(last) => {
                last.words.push(' ');
                last.words.push_str(part);
            }
            None => {
                let (name, words) = part.split_once(' ').unwrap_or((part, ""));
                found.push(Instruction { line: index + 1, name: name.to_uppercase(), words: words.trim().to_owned() });
            }
        }
        continues = line.ends_with('\\');
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# Comment.\nFROM debian:13-slim\nRUN apt-get update \\\n  # why\n  && apt-get install --yes --no-install-recommends curl \\\n  && rm -rf /var/lib/apt/lists/*\nUSER 10001:10001\nHEALTHCHECK --interval=15s \\\n  CMD [\"curl\", \"http://127.0.0.1:8080/ready\"]\nENTRYPOINT [\"pteron\", \"serve\"]\n";

    fn violations(text: &str) -> Vec<String> {
        check(&[File::with_text("deploy/container/Containerfile", text)]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn continued_lines_are_one_instruction() {
        let read = instructions(GOOD);
        let names: Vec<_> = read.iter().map(|instruction| (instruction.line, instruction.name.as_str())).collect();
        assert_eq!(names, [(2, "FROM"), (3, "RUN"), (7, "USER"), (8, "HEALTHCHECK"), (10, "ENTRYPOINT")]);
        assert!(read[1].words.ends_with("curl && rm -rf /var/lib/apt/lists/*"), "{:?}", read[1]);
    }

    #[test]
    fn a_file_that_keeps_every_rule_is_accepted() {
        assert_eq!(violations(GOOD), [""; 0]);
    }

    #[test]
    fn each_broken_rule_is_named() {
        for (from, to, part) in [
            (":13-slim", "", "no fixed tag"),
            (":13-slim", ":latest", "no fixed tag"),
            ("USER 10001:10001", "USER 0", "other than 0"),
            ("USER 10001:10001", "USER pteron", "other than 0"),
            ("USER 10001:10001", "", "runs as root"),
            ("/ready", "/", "no HEALTHCHECK"),
            ("[\"pteron\", \"serve\"]", "pteron serve", "ENTRYPOINT is a list"),
            (" --no-install-recommends", "", "--no-install-recommends"),
            ("USER", "ADD https://a.example/b.tgz /\nUSER", "ADD fetches"),
        ] {
            let found = violations(&GOOD.replace(from, to));
            assert_eq!(found.len(), 1, "{from} to {to}: {found:?}");
            assert!(found[0].contains(part), "{found:?}");
        }
    }
}
