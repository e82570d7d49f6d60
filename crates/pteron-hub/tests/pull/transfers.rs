//! Lost connections, changed files, redirects, refusals, and full disks.

use std::fs;
use std::io;
use std::ops::ControlFlow;

use pteron_files::faults;
use pteron_hub::{Error, Hub, PullOptions, Stage};

use crate::server::{COMMIT, Server, Site};
use crate::{Case, program, site};

#[test]
fn a_lost_connection_is_continued() {
    let case = Case::new(Site { cut: Some((100_000, 3)), ..site() });
    let pulled = case.pull().unwrap();
    assert_eq!(fs::read(pulled.folder.join("model.pte")).unwrap(), program());
    let ranges: Vec<_> = case.server.requests().iter().filter_map(|request| request.headers.get("range").cloned()).collect();
    assert_eq!(ranges, ["bytes=100000-", "bytes=200000-", "bytes=300000-"]);
}

#[test]
fn a_pull_that_is_stopped_is_continued_by_the_next() {
    let case = Case::new(site());
    let stopped = case.hub().pull(&case.models, &Case::model(), &PullOptions::default(), &mut |progress| {
        if progress.done > 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let Err(Error::Interrupted { done, total: 700_002 }) = stopped else { panic!("{stopped:?}") };
    assert_eq!(case.partial().unwrap(), program()[..usize::try_from(done).unwrap()]);
    assert!(case.placed().is_empty(), "nothing has its final name");
    assert_eq!(case.models.list_partial().unwrap(), [("o/m".to_owned(), done)]);
    assert!(matches!(case.models.find(&Case::model()), Err(Error::NotPulled { .. })));
    case.pull().unwrap();
    let range = case.server.requests().iter().find_map(|request| request.headers.get("range").cloned());
    assert_eq!(range, Some(format!("bytes={done}-")));
}

#[test]
fn a_server_without_ranges_sends_all_of_it_again() {
    let case = Case::new(Site { cut: Some((300_000, 1)), no_ranges: true, ..site() });
    assert_eq!(fs::read(case.pull().unwrap().folder.join("model.pte")).unwrap(), program());
}

#[test]
fn a_connection_that_brings_nothing_is_given_up() {
    let case = Case::new(Site { cut: Some((0, 100)), ..site() });
    let error = case.pull().unwrap_err();
    assert!(matches!(error, Error::Network { .. }), "{error}");
    assert!(error.to_string().ends_with("the same command continues where it stopped"), "{error}");
    drop(case);
    let nobody = Server::start(site());
    let hub = Case::new(site());
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let options = hub.options().with_endpoint(format!("http://{port}"));
    let error = Hub::new(options)
        .unwrap()
        .pull(&hub.models, &Case::model(), &PullOptions::default(), &mut |_| ControlFlow::Continue(()));
    assert!(matches!(error, Err(Error::Network { .. })), "{error:?}");
    assert!(nobody.requests().is_empty());
}

#[test]
fn damaged_files_are_not_kept() {
    let case = Case::new(Site { damaged: true, ..site() });
    let error = case.pull().unwrap_err();
    assert!(matches!(&error, Error::Checksum { file, .. } if file == "model.pte"), "{error}");
    assert!(case.partial().is_none() && case.placed().is_empty());
    case.server.change(|site| site.damaged = false);
    case.pull().unwrap();
}

/// Bytes of an earlier run that the disk has damaged.
#[test]
fn a_damaged_part_is_fetched_again() {
    let case = Case::new(site());
    let folder = case.models.folder().join("o/m/partial");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(crate::server::sha256(&program()));
    for content in [vec![7; 1000], vec![7; 700_000], vec![7; 900_000]] {
        fs::write(&path, &content).unwrap();
        assert_eq!(fs::read(case.pull().unwrap().folder.join("model.pte")).unwrap(), program());
        case.models.remove(&Case::model()).unwrap();
        fs::create_dir_all(&folder).unwrap();
    }
}

#[test]
fn a_file_that_changes_under_its_commit_is_rejected_and_then_fetched_anew() {
    let case = Case::new(Site { cut: Some((100_000, 1)), ..site() });
    let mut change = Some(());
    let changed = program().into_iter().rev().collect::<Vec<u8>>();
    let result = case.hub().pull(&case.models, &Case::model(), &PullOptions::default(), &mut |progress| {
        if matches!(progress.stage, Stage::Retrying { .. }) && change.take().is_some() {
            case.server.change(|site| drop(site.files.insert("model.pte".to_owned(), changed.clone())));
        }
        ControlFlow::Continue(())
    });
    let error = result.unwrap_err().to_string();
    assert!(error.contains("is another version than its listing states"), "{error}");
    assert!(case.placed().is_empty());
    assert_eq!(fs::read(case.pull().unwrap().folder.join("model.pte")).unwrap(), changed);
}

#[test]
fn large_files_come_from_another_host_without_the_token() {
    let cdn = Server::start(site());
    let case = Case::new(Site { redirect: Some(cdn.address.clone()), token: Some("hf_secret".to_owned()), ..site() });
    let hub = Hub::new(case.options().with_token("hf_secret").unwrap()).unwrap();
    cdn.change(|site| site.cut = Some((50_000, 1)));
    let pulled =
        hub.pull(&case.models, &Case::model(), &PullOptions::default(), &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(fs::read(pulled.folder.join("model.pte")).unwrap(), program());
    assert!(case.server.requests().iter().all(|request| request.headers.contains_key("authorization")));
    let there = cdn.requests();
    assert_eq!(there.len(), 2);
    assert!(there.iter().all(|request| !request.headers.contains_key("authorization")), "{there:?}");
    assert_eq!(there[1].headers.get("range").map(String::as_str), Some("bytes=50000-"));
}

#[test]
fn a_checksum_of_another_host_does_not_count() {
    let mut other = site();
    other.files.insert("model.pte".to_owned(), vec![1; 700_000]);
    let cdn = Server::start(other);
    let case = Case::new(Site { redirect: Some(cdn.address.clone()), ..site() });
    assert!(matches!(case.pull(), Err(Error::Checksum { .. })));
    assert!(case.placed().is_empty() && case.partial().is_none());
}

#[test]
fn refusals_are_sentences_that_say_what_to_do() {
    let case = Case::new(site());
    let refused = |status: &str| {
        case.server.change(|site| site.refuse = Some((status.to_owned(), 3)));
        let error = case.pull().unwrap_err().to_string();
        case.server.change(|site| site.refuse = None);
        error.replace(&case.server.address, "ENDPOINT")
    };
    let hidden = "ENDPOINT has no model o/m, or hides it from everybody without a token; check the name, or set HF_TOKEN to the token of \
                  somebody who may read it";
    assert_eq!(refused("401 Unauthorized"), hidden);
    assert_eq!(refused("404 Not Found\r\nX-Error-Code: RepoNotFound"), hidden);
    assert_eq!(refused("404 Not Found\r\nX-Error-Code: RevisionNotFound"), "o/m has no revision \"main\"");
    let gated = refused("403 Forbidden\r\nX-Error-Code: GatedRepo");
    assert!(gated.starts_with("o/m asks for an agreement before it is fetched: accept it at ENDPOINT/o/m"), "{gated}");
    let limited = refused("429 Too Many Requests\r\nRetry-After: 3600");
    assert_eq!(limited, "127.0.0.1 accepts no more requests for now; try again in 3600 s");
    assert_eq!(refused("503 Service Unavailable"), "127.0.0.1 answers with status 503 for \"a listing\"");
    assert_eq!(refused("400 Bad Request"), "127.0.0.1 answers with status 400 for \"a listing\"");
    case.server.change(|site| site.refuse = Some(("503 Service Unavailable\r\nRetry-After: 0".to_owned(), 2)));
    case.pull().unwrap();
}

#[test]
fn a_rejected_token_is_named_by_its_source_alone() {
    let case = Case::new(Site { refuse: Some(("401 Unauthorized".to_owned(), 1)), ..site() });
    let hub = Hub::new(case.options().with_token("hf_secret").unwrap()).unwrap();
    let error =
        hub.pull(&case.models, &Case::model(), &PullOptions::default(), &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert!(
        error.to_string().contains("rejects the token of the caller") && !format!("{error:?}").contains("hf_secret"),
        "{error}"
    );
}

/// Every operation on a file fails in turn: what has its final name is complete, and the next pull completes the model.
#[test]
fn a_failing_disk_leaves_nothing_half_written() {
    let mut small = site();
    small.files.insert("model.pte".to_owned(), b"program".to_vec());
    let case = Case::new(small);
    for operations in 0..200 {
        let fault = faults::fail_after(case.folder.path(), operations, io::ErrorKind::StorageFull);
        let result = case.pull();
        let reached = fault.reached();
        drop(fault);
        for (path, len) in case.placed() {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            assert!(
                name.ends_with(".json") && name != "tokenizer.json" || len == if name == "model.pte" { 7 } else { 2 },
                "{name}: {len}"
            );
        }
        if !reached {
            let pulled = result.unwrap();
            assert_eq!(fs::read(pulled.folder.join("model.pte")).unwrap(), b"program");
            assert!(operations > 5, "{operations}");
            return;
        }
        assert!(result.is_err(), "after {operations} operations");
        if let Ok(found) = case.models.find(&Case::model()) {
            assert_eq!(found.commit, COMMIT);
        }
        // Each round from the beginning.
        let _ = case.models.remove(&Case::model());
    }
    panic!("no end");
}
