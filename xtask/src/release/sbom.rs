//! Software bills of materials in `CycloneDX` 1.6: what is linked into each artefact, with licences and checksums.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::dependencies::{Component, Linked};

/// Writes the bill of a build. The same build at the same time gives the same text.
pub(crate) fn text(linked: &Linked, time: &str) -> Result<String> {
    let parts: Vec<Value> = linked.components.iter().skip(1).map(|component| describe(component, "library")).collect();
    let dependencies = linked.components.iter().map(|from| {
        let to: Vec<String> = from.dependencies.iter().map(|to| reference(&linked.components[*to])).collect();
        json!({ "ref": reference(from), "dependsOn": to })
    });
    let dependencies: Vec<Value> = dependencies.collect();
    let mut bill = json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": time,
            "component": describe(linked.root(), "application"),
            "properties": [{ "name": "cdx:rustc:sbom:target:triple", "value": linked.target }],
        },
        "components": parts,
        "dependencies": dependencies,
    });
    bill["serialNumber"] = json!(serial_number(&bill.to_string()));
    check(&bill)?;
    Ok(format!("{bill:#}\n"))
}

fn describe(component: &Component, kind: &str) -> Value {
    let mut value = json!({
        "type": kind,
        "bom-ref": reference(component),
        "name": component.name,
        "version": component.version,
        "purl": reference(component),
        "licenses": [{ "expression": component.license }],
    });
    if let Some(sha256) = &component.sha256 {
        value["hashes"] = json!([{ "alg": "SHA-256", "content": sha256 }]);
    }
    if let Some(repository) = &component.repository {
        value["externalReferences"] = json!([{ "type": "vcs", "url": repository }]);
    }
    value
}

/// The package URL, in which a plus sign is escaped.
fn reference(component: &Component) -> String {
    format!("pkg:cargo/{}@{}", component.name, component.version.replace('+', "%2B"))
}

/// A UUID made of the content's hash (version 8, whose bits mean what their maker says).
fn serial_number(content: &str) -> String {
    let hash = Sha256::digest(content.as_bytes());
    let mut bytes: Vec<u8> = hash[..16].to_vec();
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("urn:uuid:{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// Checks what the schema demands of the parts that are written here.
pub(crate) fn check(bill: &Value) -> Result<()> {
    if bill["bomFormat"] != "CycloneDX" || bill["specVersion"] != "1.6" || bill["version"] != 1 {
        bail!("the bill of materials does not say that it is CycloneDX 1.6");
    }
    if !bill["serialNumber"].as_str().is_some_and(is_serial_number) {
        bail!("{} is no serial number", bill["serialNumber"]);
    }
    let mut references = BTreeSet::new();
    let parts = bill["components"].as_array().into_iter().flatten();
    for component in parts.chain([&bill["metadata"]["component"]]) {
        let text = |key: &str| component[key].as_str().filter(|text| !text.is_empty());
        let (Some(reference), Some(_), Some(_)) = (text("bom-ref"), text("name"), text("type")) else {
            bail!("a component has no bom-ref, name or type: {component}");
        };
        if !references.insert(reference) {
            bail!("{reference} is listed twice");
        }
        // An expression stands alone.
        let licenses = component["licenses"].as_array().map(Vec::as_slice).unwrap_or_default();
        if licenses.len() != 1 || licenses[0]["expression"].as_str().is_none_or(|expression| !is_expression(expression)) {
            bail!("{reference} has no licence");
        }
        for hash in component["hashes"].as_array().into_iter().flatten() {
            let is_hex = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            if hash["alg"] != "SHA-256" || !hash["content"].as_str().is_some_and(is_hex) {
                bail!("{reference} has a hash that is none: {hash}");
            }
        }
    }
    for edge in bill["dependencies"].as_array().into_iter().flatten() {
        let ends = edge["dependsOn"].as_array().into_iter().flatten().chain([&edge["ref"]]);
        for end in ends.map(|end| end.as_str().unwrap_or_default()) {
            if !references.contains(end) {
                bail!("a dependency names {end:?}, which is not listed");
            }
        }
    }
    Ok(())
}

fn is_serial_number(text: &str) -> bool {
    let groups: Vec<&str> = text.strip_prefix("urn:uuid:").unwrap_or_default().split('-').collect();
    let is_hex = |text: &&str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12]) && groups.iter().all(is_hex)
}

/// Whether a text consists of licence names joined by `OR`, `AND` and `WITH`.
fn is_expression(text: &str) -> bool {
    let is_name = |word: &str| {
        word.starts_with(char::is_alphanumeric) && word.chars().all(|c| c.is_alphanumeric() || "-.+".contains(c))
    };
    let bare = text.replace(['(', ')'], " ");
    let words: Vec<&str> = bare.split_whitespace().collect();
    words.len() % 2 == 1
        && words.iter().enumerate().all(|(index, word)| {
            let is_operator = ["OR", "AND", "WITH"].contains(word);
            if index % 2 == 0 { is_name(word) && !is_operator } else { is_operator }
        })
}

#[cfg(test)]
mod tests {
    use super::super::dependencies::tests::linked;
    use super::*;

    const TIME: &str = "2026-11-19T18:00:00+00:00";

    fn linked_with_sums() -> Linked {
        let mut linked = linked();
        for component in linked.components.iter_mut().filter(|component| !component.own) {
            component.sha256 = Some("ab".repeat(32));
        }
        linked
    }

    fn bill() -> Value {
        serde_json::from_str(&text(&linked_with_sums(), TIME).unwrap()).unwrap()
    }

    #[test]
    fn the_bill_lists_every_crate_with_licence_checksum_and_dependencies() {
        let bill = bill();
        assert_eq!(bill["metadata"]["component"]["purl"], "pkg:cargo/app@0.1.0");
        let [b, a] = bill["components"].as_array().unwrap().as_slice() else { panic!("{bill}") };
        assert_eq!((&b["name"], &b["licenses"][0]["expression"]), (&json!("b"), &json!("Zlib")));
        assert_eq!((&a["purl"], &a["hashes"][0]["content"]), (&json!("pkg:cargo/a@1.0.0%2Bx"), &json!("ab".repeat(32))));
        assert_eq!(bill["dependencies"][0], json!({ "ref": "pkg:cargo/app@0.1.0", "dependsOn": ["pkg:cargo/b@2.0.0"] }));
    }

    #[test]
    fn the_same_content_has_the_same_serial_number() {
        assert_eq!(bill(), bill());
        let later: Value = serde_json::from_str(&text(&linked_with_sums(), "2026-11-20T18:00:00+00:00").unwrap()).unwrap();
        assert_ne!(bill()["serialNumber"], later["serialNumber"]);
        assert!(is_serial_number(bill()["serialNumber"].as_str().unwrap()));
    }

    #[test]
    fn damage_is_found() {
        for (pointer, value) in [
            ("/specVersion", json!("1.4")),
            ("/serialNumber", json!("urn:uuid:1")),
            ("/components/0/bom-ref", json!("pkg:cargo/app@0.1.0")),
            ("/components/0/name", json!("")),
            ("/components/0/licenses/0/expression", json!("MIT/Apache-2.0")),
            ("/components/0/hashes/0/content", json!("ab")),
            ("/dependencies/0/dependsOn/0", json!("pkg:cargo/other@1.0.0")),
        ] {
            let mut damaged = bill();
            *damaged.pointer_mut(pointer).unwrap() = value;
            assert!(check(&damaged).is_err(), "{pointer}");
        }
        assert!(check(&bill()).is_ok());
    }

    #[test]
    fn licence_expressions_are_told_from_other_texts() {
        for good in ["MIT", "MIT OR Apache-2.0", "(MIT OR Apache-2.0) AND Unicode-3.0", "Apache-2.0 WITH LLVM-exception"] {
            assert!(is_expression(good), "{good}");
        }
        for bad in ["", "MIT Apache-2.0", "MIT OR", "OR MIT", "MIT/Apache-2.0"] {
            assert!(!is_expression(bad), "{bad}");
        }
    }
}
