//! The container file. Where no container can be built, its entry point and its health check are run with the archive's program.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::progress::{output, run};
use super::scratch::Scratch;
use super::{Release, binary, bundle};
use crate::rules::instructions;

const FILE: &str = "deploy/container/Containerfile";
const NAME: &str = "Containerfile";
/// The port in the file.
const PORT: &str = "8080";
/// How long the server may take to load the bundled model in software.
const PATIENCE: Duration = Duration::from_secs(300);

pub(super) fn build(release: &Release<'_>) -> Result<()> {
    fs::copy(release.root().join(FILE), release.out.join(NAME)).context(FILE)?;
    run(release.tools()?.command("hadolint")?.arg(release.out.join(NAME)))
}

pub(super) fn check(release: &Release<'_>) -> Result<Vec<String>> {
    let archive = release.out.join(format!("{}.tgz", binary::archive_name(release)));
    if !archive.is_file() {
        bail!("there is no {} to serve with: build the part binary as well", archive.display());
    }
    let text = fs::read_to_string(release.out.join(NAME))?;
    let entry = list(&text, "ENTRYPOINT").context("there is no list of ENTRYPOINT")?;
    let health = list(&text, "HEALTHCHECK").context("there is no list of HEALTHCHECK")?;
    let seconds = serve(release, &archive, &entry, &health)?;
    let mut notes = vec![format!(
        "hadolint has no finding; its entry point serves, is healthy after {seconds:.1} s and ends with SIGTERM"
    )];
    notes.push(build_image(release)?);
    Ok(notes)
}

/// Builds the image, where a container engine runs.
fn build_image(release: &Release<'_>) -> Result<String> {
    for engine in ["docker", "podman"] {
        if !output(Command::new(engine).arg("info")).is_ok_and(|output| output.status.success()) {
            continue;
        }
        let tag = format!("pteron:{}", release.version);
        run(Command::new(engine).args(["build", "--tag", &tag, "--file"]).arg(release.out.join(NAME)).arg(&release.out))?;
        run(Command::new(engine).args(["run", "--rm", "--entrypoint", "pteron", &tag, "doctor"]))?;
        return Ok(format!("{engine} built {tag}, and `pteron doctor` runs in it"));
    }
    Ok("no image was built: neither docker nor podman runs here".to_owned())
}

/// The list at the end of an instruction: `["pteron", "serve"]`.
fn list(text: &str, name: &str) -> Option<Vec<String>> {
    let instructions = instructions(text);
    let words = &instructions.iter().rfind(|instruction| instruction.name == name)?.words;
    serde_json::from_str(&words[words.find('[')?..]).ok()
}

/// Runs the entry point until the health check succeeds, ends it with SIGTERM, and returns how long it took to be healthy.
fn serve(release: &Release<'_>, archive: &Path, entry: &[String], health: &[String]) -> Result<f64> {
    let scratch = Scratch::new("container")?;
    bundle::unpack(archive, scratch.path())?;
    let program =
        scratch.path().join(binary::archive_name(release)).join(entry.first().context("the entry point is empty")?);
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string();
    let mut command = scratch.command(program);
    command.args(&entry[1..]).args(["--port", &port]);
    let start = Instant::now();
    let mut server = Running(command.spawn().context("the server could not be started")?);
    let words: Vec<String> = health.iter().map(|word| word.replace(PORT, &port)).collect();
    loop {
        if output(scratch.command(&words[0]).args(&words[1..]))?.status.success() {
            break;
        }
        if let Some(status) = server.0.try_wait()? {
            bail!("the server ended before it was healthy: {status}");
        }
        if start.elapsed() > PATIENCE {
            bail!("the server is not healthy after {} s", PATIENCE.as_secs());
        }
        thread::sleep(Duration::from_millis(200));
    }
    let seconds = start.elapsed().as_secs_f64();
    run(Command::new("sh").args(["-c", &format!("kill -TERM {}", server.0.id())]))?;
    let status = server.0.wait()?;
    if !status.success() {
        bail!("after SIGTERM the server ended with {status}");
    }
    Ok(seconds)
}

/// A process that does not outlive the check.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_point_and_health_check_are_read_from_the_file() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let text = fs::read_to_string(root.join(FILE)).unwrap();
        assert_eq!(list(&text, "ENTRYPOINT").unwrap()[..2], ["pteron", "serve"]);
        let health = list(&text, "HEALTHCHECK").unwrap();
        assert!(health[0] == "curl" && health.last().unwrap().contains(PORT), "{health:?}");
        assert_eq!(list("ENTRYPOINT pteron serve\n", "ENTRYPOINT"), None);
    }
}
