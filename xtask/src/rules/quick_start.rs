//! The README's quick start is two commands, and both are in the repository.

use super::{File, Violation};

const README: &str = "README.md";
const COMMANDS: usize = 2;

pub(super) fn check(files: &[File]) -> Vec<Violation> {
    let Some(text) = files.iter().find(|file| file.path == README).and_then(|file| file.text.as_deref()) else {
        return vec![Violation::new(README, None, "is missing")];
    };
    let Some(commands) = quick_start(text) else {
        return vec![Violation::new(README, None, "has no section called Quick start")];
    };
    let mut violations = Vec::new();
    if commands.len() != COMMANDS {
        let message = format!("the quick start has {} commands instead of {COMMANDS}", commands.len());
        violations.push(Violation::new(README, None, message));
    }
    for (line, command) in commands {
        let program = command.split_whitespace().next().unwrap_or_default();
        let path = program.strip_prefix("./").unwrap_or(program);
        match files.iter().find(|file| file.path == path) {
            None => {
                violations.push(Violation::new(README, Some(line), format!("`{program}` is not in the repository")));
            }
            Some(file) if !file.executable => {
                violations.push(Violation::new(README, Some(line), format!("`{program}` is not executable")));
            }
            Some(_) => {}
        }
    }
    violations
}

/// Line numbers and text of the commands in the code blocks of the section called "Quick start".
fn quick_start(readme: &str) -> Option<Vec<(usize, &str)>> {
    let mut commands = None;
    let mut in_section = false;
    let mut in_block = false;
    for (index, line) in readme.lines().enumerate() {
        let line = line.trim();
        if line.starts_with("```") {
            in_block = !in_block;
        } else if !in_block && line.starts_with('#') {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            in_section = title == "quick start" || title == "quickstart";
            if in_section {
                commands.get_or_insert_with(Vec::new);
            }
        } else if in_section && in_block {
            let command = line.strip_prefix("$ ").unwrap_or(line);
            if !command.is_empty() && !command.starts_with('#') {
                commands.get_or_insert_with(Vec::new).push((index + 1, command));
            }
        }
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_readme(text: &str) -> Vec<String> {
        let files = [File::with_text(README, text), File::script("run"), File::script("test"), File::with_text("plain", "")];
        check(&files).iter().map(Violation::to_string).collect()
    }

    #[test]
    fn two_scripts_are_a_quick_start() {
        let text = "# Pteron\n```\n./else\n```\n## Quick start\nText.\n```sh\n# shows a model\n./run   # once\n\n$ ./test\n```\n## More\n```\ncargo\n```\n";
        assert_eq!(check_readme(text), Vec::<String>::new());
    }

    #[test]
    fn more_or_fewer_commands_are_refused() {
        let one = check_readme("## Quick start\n```\n./run\n```\n");
        assert_eq!(one, ["README.md: the quick start has 1 commands instead of 2"]);
        let three = check_readme("## Quick start\n```\n./run\n./test\n./run\n```\n");
        assert_eq!(three, ["README.md: the quick start has 3 commands instead of 2"]);
    }

    #[test]
    fn commands_must_exist_and_be_executable() {
        let found = check_readme("## Quick start\n```\n./gone\n./plain x\n```\n");
        assert_eq!(found, ["README.md:3: `./gone` is not in the repository", "README.md:4: `./plain` is not executable"]);
    }

    #[test]
    fn a_readme_without_the_section_or_no_readme_is_named() {
        assert_eq!(check_readme("# Pteron\n"), ["README.md: has no section called Quick start"]);
        assert_eq!(check(&[])[0].to_string(), "README.md: is missing");
    }
}
