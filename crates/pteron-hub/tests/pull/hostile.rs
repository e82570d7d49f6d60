//! Hostile listings and folders.

use std::fs;

use pteron_hub::{Error, PullOptions};

use crate::server::{COMMIT, Site};
use crate::{Case, site};

#[test]
fn paths_that_lead_out_of_the_folder_are_rejected() {
    for path in
        ["../evil.pte", "/tmp/evil.pte", "a/../../evil.pte", "C:\\evil.pte", "x\\y.pte", "a\u{1b}[2J.pte", "evil.pte\0"]
    {
        let case = Case::new(Site { listed: vec![path.to_owned()], ..site() });
        case.server.change(|site| {
            let json =
                format!(r#"{{"sha": "{COMMIT}", "siblings": [{{"rfilename": {}}}]}}"#, serde_json::to_string(path).unwrap());
            site.listing = Some(json.into_bytes());
        });
        let error = case.pull().unwrap_err();
        assert!(matches!(error, Error::UnsafePath { .. }), "{path}: {error}");
        assert!(!error.to_string().chars().any(char::is_control));
        assert!(case.placed().is_empty() && case.server.requests().len() == 1);
    }
}

#[test]
fn names_that_some_system_cannot_hold_are_rejected_where_they_are_wanted() {
    for path in ["con.pte", "a?.pte", "x./m.pte", "MODEL.PTE"] {
        let case = Case::new(Site { listed: vec![path.to_owned()], ..site() });
        let pulled = case.pull_named("o/m:model.pte", &PullOptions::default());
        assert!(pulled.is_ok(), "{path} is not asked for: {pulled:?}");
        let all = case.pull_named("o/m", &PullOptions::default().with_include(["*"]));
        assert!(matches!(all, Err(Error::UnsafePath { .. })), "{path}: {all:?}");
    }
}

#[test]
fn huge_and_malformed_listings_are_rejected() {
    let case = Case::new(site());
    for listing in [vec![b'['; 17 << 20], b"<html>".to_vec(), br#"{"sha": "../../..", "siblings": []}"#.to_vec(), Vec::new()]
    {
        case.server.change(|site| site.listing = Some(listing));
        let error = case.pull().unwrap_err();
        assert!(matches!(error, Error::Response { .. }), "{error}");
    }
    assert!(case.placed().is_empty());
}

#[test]
fn a_file_of_more_bytes_than_listed_is_rejected() {
    let case = Case::new(site());
    let json = format!(
        r#"{{"sha": "{COMMIT}", "siblings": [{{"rfilename": "model.pte", "size": 10, "lfs": {{"sha256": "{}", "size": 10}}}}]}}"#,
        crate::server::sha256(&crate::program())
    );
    case.server.change(|site| site.listing = Some(json.into_bytes()));
    assert!(matches!(case.pull(), Err(Error::Response { .. })));
    assert!(case.placed().is_empty() && case.partial().is_none_or(|bytes| bytes.len() <= 10));
}

#[test]
fn a_manifest_with_unsafe_paths_is_not_used() {
    let case = Case::new(site());
    let pulled = case.pull().unwrap();
    let manifest = pulled.folder.with_extension("json");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("model.pte", "../../../../x.pte")).unwrap();
    let error = case.models.find(&Case::model()).unwrap_err().to_string();
    assert!(error.contains("unsafe path") && error.ends_with("remove the model and pull it again"), "{error}");
    case.models.remove(&Case::model()).unwrap();
    case.pull().unwrap();
}

#[test]
fn files_of_others_in_the_folder_are_ignored() {
    let case = Case::new(site());
    for folder in ["o/.hidden", "not a name/x", "o/m/snapshots"] {
        fs::create_dir_all(case.models.folder().join(folder)).unwrap();
    }
    fs::write(case.models.folder().join("file"), "x").unwrap();
    assert!(case.models.list().unwrap().is_empty());
    case.pull().unwrap();
    assert_eq!(case.models.list().unwrap().len(), 1);
}
