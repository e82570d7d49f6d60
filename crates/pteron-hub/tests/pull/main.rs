//! Tests of pulling, against a server on this machine.

#![cfg(feature = "download")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

mod hostile;
mod server;
mod transfers;

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pteron_files::TemporaryFolder;
use pteron_hub::{Error, Hub, HubOptions, ModelRef, Models, PullOptions, PulledModel, Retries, Stage};
use server::{COMMIT, Server, Site};

/// Bytes of a program: more than a block of a transfer.
fn program() -> Vec<u8> {
    (0..700_000_u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

fn site() -> Site {
    let files = [("model.pte", program()), ("tokenizer.json", b"{}".to_vec()), ("README.md", b"# Model".to_vec())];
    Site { files: files.map(|(path, bytes)| (path.to_owned(), bytes)).into(), ..Site::default() }
}

/// A folder of models, and a server to fill it from.
struct Case {
    server: Server,
    folder: TemporaryFolder,
    models: Models,
}

impl Case {
    fn new(site: Site) -> Self {
        let folder = TemporaryFolder::new("pteron-hub-").unwrap();
        let models = Models::new(folder.path().join("models"));
        Self { server: Server::start(site), folder, models }
    }

    fn hub(&self) -> Hub {
        Hub::new(self.options()).unwrap()
    }

    fn options(&self) -> HubOptions {
        let retries = Retries::default().with_most(2).with_first_wait(Duration::from_millis(1));
        HubOptions::default().with_endpoint(&self.server.address).with_retries(retries)
    }

    fn pull(&self) -> Result<PulledModel, Error> {
        self.pull_named("o/m", &PullOptions::default())
    }

    fn pull_named(&self, name: &str, options: &PullOptions) -> Result<PulledModel, Error> {
        self.hub().pull(&self.models, &name.parse()?, options, &mut |_| ControlFlow::Continue(()))
    }

    fn model() -> ModelRef {
        "o/m".parse().unwrap()
    }

    /// Bytes of the only file that has arrived in part.
    fn partial(&self) -> Option<Vec<u8>> {
        let folder = self.models.folder().join("o/m/partial");
        let mut entries = fs::read_dir(folder).ok()?;
        Some(fs::read(entries.next()?.unwrap().path()).unwrap())
    }

    /// Every file of complete or incomplete commits, with its length.
    fn placed(&self) -> BTreeMap<PathBuf, u64> {
        let mut files = BTreeMap::new();
        collect(&self.models.folder().join("o/m/snapshots"), &mut files);
        files
    }
}

fn collect(folder: &Path, files: &mut BTreeMap<PathBuf, u64>) {
    for entry in fs::read_dir(folder).into_iter().flatten().map(Result::unwrap) {
        if entry.path().is_dir() {
            collect(&entry.path(), files);
        } else {
            files.insert(entry.path(), entry.metadata().unwrap().len());
        }
    }
}

#[test]
fn a_model_is_pulled_found_listed_and_removed() {
    let case = Case::new(site());
    assert!(matches!(case.models.find(&Case::model()), Err(Error::NotPulled { .. })));
    let mut most = 0;
    let pulled = case.hub().pull(&case.models, &Case::model(), &PullOptions::default(), &mut |progress| {
        assert!(progress.done <= progress.total && progress.done >= most);
        most = progress.done;
        ControlFlow::Continue(())
    });
    let pulled = pulled.unwrap();
    assert_eq!(
        (pulled.files.as_slice(), pulled.bytes),
        (["model.pte".to_owned(), "tokenizer.json".to_owned()].as_slice(), 700_002)
    );
    assert_eq!((pulled.label(), pulled.commit.as_str()), ("main", COMMIT));
    let found = case.models.find(&Case::model()).unwrap();
    let files = found.program(None).unwrap();
    assert_eq!(fs::read(&files.program).unwrap(), program());
    assert!(files.data.is_empty() && case.partial().is_none());
    assert_eq!(case.models.list().unwrap().len(), 1);
    let requests = case.server.requests().len();
    case.pull().unwrap();
    assert_eq!(case.server.requests().len(), requests + 1, "only the listing is fetched again");
    let by_commit = case.pull_named(&format!("o/m@{COMMIT}"), &PullOptions::default()).unwrap();
    assert_eq!((by_commit.folder, case.server.requests().len()), (pulled.folder, requests + 1), "a commit is not asked for");
    assert!(case.models.remove(&Case::model()).unwrap() >= 700_002);
    assert!(case.models.list().unwrap().is_empty() && case.placed().is_empty());
    assert!(matches!(case.models.remove(&Case::model()), Err(Error::NotPulled { .. })));
}

#[test]
fn one_program_of_several_is_chosen() {
    let mut several = site();
    several.files.insert("q4/small.pte".to_owned(), b"small".to_vec());
    several.files.insert("q4/small.ptd".to_owned(), b"data".to_vec());
    let case = Case::new(several);
    let error = case.pull().unwrap_err().to_string();
    assert_eq!(error, "o/m has 2 programs; choose one with --program, or several with --include: model.pte, q4/small.pte");
    let small = case.pull_named("o/m:small.pte", &PullOptions::default()).unwrap();
    assert_eq!(small.files, ["q4/small.ptd", "q4/small.pte", "tokenizer.json"]);
    assert_eq!(small.program(None).unwrap().data, [small.folder.join("q4").join("small.ptd")]);
    let both = case.pull_named("o/m", &PullOptions::default().with_include(["*.pte"])).unwrap();
    assert_eq!(both.files.len(), 4, "what was there stays");
    let error = both.program(None).unwrap_err().to_string();
    assert!(error.contains("name one of them, as in o/m:model.pte"), "{error}");
    assert!(both.program(Some("model.pte")).is_ok());
}

#[test]
fn a_branch_that_moves_replaces_the_old_commit_and_shares_its_files() {
    let case = Case::new(site());
    let old = case.pull().unwrap();
    case.pull_named("o/m@v1", &PullOptions::default()).unwrap();
    let next = "f".repeat(40);
    case.server.change(|site| {
        site.commit.clone_from(&next);
        site.files.insert("tokenizer.json".to_owned(), b"[]".to_vec());
    });
    let before = case.server.requests().len();
    let new = case.pull().unwrap();
    let asked: Vec<String> = case.server.requests()[before..].iter().map(|request| request.path.clone()).collect();
    assert_eq!(asked.len(), 2, "the listing and the changed file: {asked:?}");
    assert_eq!(fs::read(new.folder.join("model.pte")).unwrap(), program());
    assert!(old.folder.is_dir(), "it is still the tag v1");
    assert_eq!(case.models.find(&"o/m@v1".parse().unwrap()).unwrap().commit, COMMIT);
    assert_eq!(case.models.find(&Case::model()).unwrap().commit, next);
    case.pull_named("o/m@v1", &PullOptions::default()).unwrap();
    assert!(!old.folder.exists(), "no branch or tag is the old commit");
    case.models.remove(&"o/m@v1".parse().unwrap()).unwrap();
    assert!(new.folder.is_dir(), "it is still main");
    case.models.remove(&"o/m@main".parse().unwrap()).unwrap();
    assert!(!new.folder.exists());
}

#[test]
fn sizes_and_checksums_come_from_the_file_where_the_listing_has_none() {
    let case = Case::new(Site { bare_listing: true, ..site() });
    assert_eq!(case.pull().unwrap().bytes, 700_002);
    let heads = case.server.requests().iter().filter(|request| request.method == "HEAD").count();
    assert_eq!(heads, 2);
}

#[test]
fn two_pulls_of_one_model_fetch_it_once() {
    let case = Case::new(site());
    let waited = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let pulled = case.hub().pull(&case.models, &Case::model(), &PullOptions::default(), &mut |progress| {
                    if progress.stage == Stage::Waiting {
                        waited.store(true, std::sync::atomic::Ordering::SeqCst);
                    }
                    if matches!(progress.stage, Stage::Downloading(_)) && !waited.load(std::sync::atomic::Ordering::SeqCst) {
                        std::thread::sleep(Duration::from_millis(20));
                    }
                    ControlFlow::Continue(())
                });
                assert_eq!(fs::read(pulled.unwrap().folder.join("model.pte")).unwrap(), program());
            });
        }
    });
    let fetched = case.server.requests().iter().filter(|request| request.path.ends_with("model.pte")).count();
    assert_eq!(fetched, 1);
}

#[test]
fn nothing_is_fetched_offline() {
    let case = Case::new(site());
    let mut options = case.options();
    options.offline = true;
    let hub = Hub::new(options).unwrap();
    let pull = |name: &str| {
        hub.pull(&case.models, &name.parse().unwrap(), &PullOptions::default(), &mut |_| ControlFlow::Continue(()))
    };
    assert!(pull("o/m").unwrap_err().to_string().starts_with("HF_HUB_OFFLINE is set"));
    case.pull().unwrap();
    assert!(pull(&format!("o/m@{COMMIT}")).is_ok(), "it is there");
    assert!(case.folder.path().is_dir());
}
