//! `tokenizer_config.json`: the chat template, and the tokens that it names.

use serde_json::{Map, Value, json};

use super::super::metadata::Metadata;
use super::AddedTokens;
use super::vocabulary::Vocabulary;
use crate::error::Result;

const TEMPLATE: &str = "tokenizer.chat_template";
const NAMES: &str = "tokenizer.chat_templates";

/// The file's content.
pub(super) fn config(metadata: &Metadata<'_>, vocabulary: &Vocabulary<'_>, around: &AddedTokens) -> Result<Value> {
    let template = metadata.text(TEMPLATE)?;
    let mut config = Map::new();
    // Readers add this token to texts, so it is left out if texts do not begin with it, unless the template uses it.
    let wanted = around.begin || template.is_some_and(|template| template.contains("bos_token"));
    let begin = vocabulary.begin.filter(|_| wanted);
    let roles = [
        ("bos_token", begin),
        ("eos_token", vocabulary.end),
        ("unk_token", vocabulary.unknown),
        ("pad_token", vocabulary.padding),
    ];
    for (role, token) in roles {
        if let Some(token) = token {
            config.insert(role.to_owned(), token.text.into());
        }
    }
    config.insert("add_bos_token".to_owned(), around.begin.into());
    config.insert("add_eos_token".to_owned(), around.end.into());
    config.insert("clean_up_tokenization_spaces".to_owned(), false.into());
    config.insert("tokenizer_class".to_owned(), "PreTrainedTokenizerFast".into());
    let named = named(metadata)?;
    if named.is_empty() {
        config.extend(template.map(|template| ("chat_template".to_owned(), template.into())));
    } else {
        let default = template.map(|template| json!({"name": "default", "template": template}));
        config.insert("chat_template".to_owned(), default.into_iter().chain(named).collect());
    }
    Ok(Value::Object(config))
}

/// Named templates, such as the one for tools.
fn named(metadata: &Metadata<'_>) -> Result<Vec<Value>> {
    let Some(names) = metadata.array(NAMES)? else { return Ok(Vec::new()) };
    let mut templates = Vec::new();
    for name in names.texts()? {
        let key = format!("{TEMPLATE}.{name}");
        let template = metadata.needed(&key, metadata.text(&key))?;
        templates.push(json!({"name": name, "template": template}));
    }
    Ok(templates)
}
