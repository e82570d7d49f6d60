//! Pages that are generated: the help of every command, the server's API, and the Python package.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Prints the reference of the Python package.
const PYTHON_REFERENCE: &str = include_str!("python_reference.py");

/// Time for the server to answer; it does so before its model is loaded.
const LIMIT: Duration = Duration::from_secs(60);

/// The help of every command.
pub(super) fn commands(pteron: &Path) -> Result<String> {
    let mut out = "# Help of every command\n\nWhat `pteron --help` and each command's `--help` print. [The command's README](command-line.md) \
                   explains more.\n"
        .to_owned();
    help(pteron, &mut Vec::new(), &mut out)?;
    Ok(out)
}

fn help(pteron: &Path, words: &mut Vec<String>, out: &mut String) -> Result<()> {
    let output = Command::new(pteron).args(&*words).arg("--help").env("NO_COLOR", "1").stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("{} could not be started", pteron.display()))?;
    let text = String::from_utf8(output.stdout).context("a help is not text")?;
    if !output.status.success() || text.is_empty() {
        bail!("pteron {} --help printed nothing", words.join(" "));
    }
    let title = [&["pteron".to_owned()][..], &words[..]].concat().join(" ");
    let _ = writeln!(out, "\n## {title}\n\n```text\n{}\n```", text.trim_end());
    for command in subcommands(&text) {
        words.push(command.to_owned());
        help(pteron, words, out)?;
        words.pop();
    }
    Ok(())
}

/// The names below `Commands:`.
fn subcommands(help: &str) -> impl Iterator<Item = &str> {
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // Deeper lines continue a description.
    let names = list.filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
    names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help")
}

/// Asks a server for its description.
pub(super) fn openapi(pteron: &Path) -> Result<Value> {
    let address = format!("127.0.0.1:{}", free_port()?);
    let port = address.rsplit(':').next().unwrap_or_default();
    let mut command = Command::new(pteron);
    command.args(["serve", "--port", port, "--log", "off"]).stdin(Stdio::null()).stdout(Stdio::null());
    let mut server = command.spawn().with_context(|| format!("{} could not be started", pteron.display()))?;
    let body = wait_for(&address, "/openapi.json");
    server.kill()?;
    server.wait()?;
    serde_json::from_str(&body?).context("/openapi.json is not JSON")
}

/// A port that nothing listens on.
pub(super) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// The body of the first successful answer.
fn wait_for(address: &str, path: &str) -> Result<String> {
    let start = Instant::now();
    loop {
        match get(address, path) {
            Ok(body) => return Ok(body),
            Err(error) if start.elapsed() > LIMIT => return Err(error.context(format!("http://{address}{path}"))),
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn get(address: &str, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LIMIT))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer has no body")?;
    if head.starts_with("HTTP/1.1 200 ") { Ok(body.to_owned()) } else { bail!("{head}") }
}

/// The page of the server's API.
pub(super) fn api(description: &Value) -> String {
    let info = &description["info"];
    let mut out =
        "# HTTP API\n\nGenerated from the [description](openapi.json) that a server has at `/openapi.json`".to_owned();
    let _ = writeln!(out, ", of version {}. {}", text(&info["version"]), text(&info["description"]));
    out += "\nFields of a request that are marked with \\* are required, and any other may be null. An answer has all of its fields but those that \
            say \"sometimes\".\n";
    for (path, operations) in description["paths"].as_object().into_iter().flatten() {
        for (method, operation) in operations.as_object().into_iter().flatten() {
            let _ = writeln!(out, "\n## {} `{path}`\n\n{}.", method.to_uppercase(), text(&operation["summary"]));
            let answers = &operation["responses"]["200"]["content"];
            let media = answers.as_object().into_iter().flatten().map(|(media, _)| format!("`{media}`"));
            let media: Vec<String> = media.collect();
            if !media.is_empty() {
                let _ = writeln!(out, "Answers with {}.", media.join(" or "));
            }
            let request = &operation["requestBody"]["content"]["application/json"]["schema"];
            table(&mut out, "request", request, |required| if required { "\\*" } else { "" });
            table(&mut out, "answer", &answers["application/json"]["schema"], sometimes);
        }
    }
    for (name, schema) in description["components"]["schemas"].as_object().into_iter().flatten() {
        let _ = writeln!(out, "\n## Schema {name}");
        table(&mut out, "field", schema, sometimes);
    }
    out
}

fn sometimes(required: bool) -> &'static str {
    if required { "" } else { " (sometimes)" }
}

/// A row for every field of an object, and of the objects in it. `mark` follows the names of required fields, or of others.
fn table(out: &mut String, title: &str, schema: &Value, mark: fn(bool) -> &'static str) {
    let mut rows = Vec::new();
    flatten("", "", schema, mark, &mut rows);
    if !rows.is_empty() {
        let _ = writeln!(out, "\n| {title} | type |\n|---|---|\n{}", rows.join("\n"));
    }
}

fn flatten(path: &str, marked: &str, schema: &Value, mark: fn(bool) -> &'static str, rows: &mut Vec<String>) {
    let schema = only_choice(schema);
    if let Some(properties) = schema["properties"].as_object() {
        let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for (name, schema) in properties {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            flatten(&path, mark(required.contains(&name.as_str())), schema, mark, rows);
        }
    } else if only_choice(&schema["items"])["properties"].is_object() {
        flatten(&format!("{path}[]"), marked, &schema["items"], mark, rows);
    } else if !path.is_empty() {
        rows.push(format!("| `{path}`{marked} | {} |", kind(schema)));
    }
}

/// The schema itself, or of several the only one that is not null.
fn only_choice(schema: &Value) -> &Value {
    let choices = schema["anyOf"].as_array().map_or(&[][..], Vec::as_slice);
    let mut others = choices.iter().filter(|choice| choice["type"] != "null");
    match (others.next(), others.next()) {
        (Some(choice), None) => choice,
        _ => schema,
    }
}

/// A schema in words.
fn kind(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap_or_default();
        return format!("[{name}](#schema-{})", name.to_lowercase());
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        let choices: Vec<String> = choices.iter().filter(|choice| choice["type"] != "null").map(kind).collect();
        return choices.join(", or ");
    }
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(", ");
    }
    if !schema["const"].is_null() {
        return format!("`{}`", schema["const"]);
    }
    match &schema["type"] {
        Value::String(name) if name == "array" => format!("list of {}", kind(&schema["items"])),
        Value::String(name) if name == "object" => object(schema),
        Value::String(name) => name.clone() + &bounds(schema),
        Value::Array(names) => {
            names.iter().filter_map(Value::as_str).filter(|name| *name != "null").collect::<Vec<_>>().join(" or ")
        }
        _ => "anything".to_owned(),
    }
}

fn object(schema: &Value) -> String {
    let Some(properties) = schema["properties"].as_object() else { return "object".to_owned() };
    let properties: Vec<String> = properties.iter().map(|(name, schema)| format!("`{name}`: {}", kind(schema))).collect();
    format!("object with {}", properties.join("; "))
}

/// The range of a number. Bounds of the host's integer types are not worth a word.
fn bounds(schema: &Value) -> String {
    let number = |name: &str| schema[name].as_f64().filter(|number| number.abs() < f64::from(u32::MAX));
    match (number("minimum"), number("maximum")) {
        (Some(least), Some(most)) => format!(" from {} to {}", short(least), short(most)),
        (Some(least), None) => format!(", at least {}", short(least)),
        (None, Some(most)) => format!(", at most {}", short(most)),
        (None, None) => String::new(),
    }
}

/// A number that was a 32-bit one, without the digits that it gained.
fn short(number: f64) -> String {
    let text = format!("{number:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The page of the Python package, which a Python prints.
pub(super) fn python(python: &Path, root: &Path) -> Result<String> {
    let mut command = Command::new(python);
    command.args(["-c", PYTHON_REFERENCE]).arg(root.join("crates/pteron-python/python"));
    let output = command.output().with_context(|| format!("{} could not be started", python.display()))?;
    if !output.status.success() {
        bail!("the reference of the Python package: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn subcommands_are_read_from_a_help() {
        let help = "Usage: x\n\nCommands:\n  run     Runs\n            more\n  models  Lists\n  help    Prints\n\nOptions:\n  -h, --help\n";
        assert_eq!(subcommands(help).collect::<Vec<_>>(), ["run", "models"]);
        assert_eq!(subcommands("Usage: x\n").count(), 0);
    }

    #[test]
    fn fields_of_a_route_become_rows() {
        let nullable = |schema: Value| json!({ "anyOf": [schema, { "type": "null" }] });
        let schema = json!({ "type": "object", "required": ["input"], "properties": {
            "input": { "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "integer", "minimum": 0 } }] },
            "top_p": nullable(json!({ "type": "number", "minimum": 0.01_f32, "maximum": 1 })),
            "seed": nullable(json!({ "type": "integer", "minimum": i64::MIN, "maximum": u64::MAX })),
            "role": { "enum": ["user", "tool"] },
            "message": { "$ref": "#/components/schemas/Message" },
            "tools": nullable(json!({ "type": "array", "items": { "properties": { "name": { "type": "string" } }, "required": ["name"] } })),
        } });
        let answer = json!({ "properties": { "usage": { "properties": { "tokens": { "type": "integer" } } } }, "required": ["usage"] });
        let description = json!({
            "info": { "version": "1.2", "description": "Words." },
            "components": { "schemas": {} },
            "paths": { "/x": { "post": { "summary": "Does x", "requestBody": { "content": { "application/json": { "schema": schema } } },
                "responses": { "200": { "content": { "application/json": { "schema": answer } } } } } } },
        });
        let page = api(&description);
        for part in [
            "of version 1.2. Words.\n",
            "\n## POST `/x`\n\nDoes x.\nAnswers with `application/json`.\n\n| request | type |\n|---|---|\n",
            "| `input`\\* | string, or list of integer, at least 0 |\n",
            "| `top_p` | number from 0.01 to 1 |\n",
            "| `seed` | integer |\n",
            "| `role` | `\"user\"`, `\"tool\"` |\n",
            "| `message` | [Message](#schema-message) |\n",
            "| `tools[].name`\\* | string |\n",
            "\n| answer | type |\n|---|---|\n| `usage.tokens` (sometimes) | integer |\n",
        ] {
            assert!(page.contains(part), "no {part:?} in\n{page}");
        }
    }
}
