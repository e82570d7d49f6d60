//! Special tokens and chat templates from `tokenizer_config.json`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::tokenizer::TokenizerError;

/// The special tokens and chat templates that `tokenizer_config.json` declares.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TokenizerConfig {
    /// The special tokens by their roles, such as `bos_token` and `eos_token`.
    pub tokens: BTreeMap<String, String>,
    /// The templates by name. One without a name is called `default`.
    pub templates: Vec<(String, String)>,
    /// Whether prompts begin with the beginning-of-sequence token: not where `add_bos_token` is false or `bos_token` is null.
    pub adds_bos: bool,
}

impl Default for TokenizerConfig {
    fn default() -> Self {
        Self { tokens: BTreeMap::new(), templates: Vec::new(), adds_bos: true }
    }
}

impl TokenizerConfig {
    /// Parses the file's content.
    ///
    /// # Errors
    /// The bytes are not a JSON object, or a template is not a string.
    pub fn from_json(json: &[u8]) -> Result<Self, TokenizerError> {
        let config: Value = serde_json::from_slice(json).map_err(|error| TokenizerError::Config(error.to_string()))?;
        let Some(config) = config.as_object() else {
            return Err(TokenizerError::Config("it is not an object".to_owned()));
        };
        let mut tokens = BTreeMap::new();
        for (role, token) in config.iter().filter(|(role, _)| role.ends_with("_token")) {
            // A text, or an object that has it as content. Switches such as add_bos_token are neither.
            let text = token.as_str().or_else(|| token.get("content").and_then(Value::as_str));
            if let Some(text) = text {
                tokens.insert(role.clone(), text.to_owned());
            }
        }
        let templates = match config.get("chat_template") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::String(template)) => vec![("default".to_owned(), template.clone())],
            Some(Value::Array(list)) => list.iter().map(named).collect::<Option<_>>().ok_or_else(no_template)?,
            Some(_) => return Err(no_template()),
        };
        let adds_bos =
            config.get("add_bos_token") != Some(&Value::Bool(false)) && config.get("bos_token") != Some(&Value::Null);
        Ok(Self { tokens, templates, adds_bos })
    }

    /// The token that starts a text.
    #[must_use]
    pub fn bos_token(&self) -> Option<&str> {
        self.tokens.get("bos_token").map(String::as_str)
    }

    /// The token that ends a text.
    #[must_use]
    pub fn eos_token(&self) -> Option<&str> {
        self.tokens.get("eos_token").map(String::as_str)
    }
}

fn named(entry: &Value) -> Option<(String, String)> {
    Some((entry.get("name")?.as_str()?.to_owned(), entry.get("template")?.as_str()?.to_owned()))
}

fn no_template() -> TokenizerError {
    TokenizerError::Config("chat_template is neither a text nor a list of names with templates".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_and_templates_come_in_both_forms() {
        let config = TokenizerConfig::from_json(
            br#"{"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false}, "pad_token": null,
                 "add_bos_token": true, "chat_template": "T", "model_max_length": 1e30}"#,
        )
        .unwrap();
        assert_eq!((config.bos_token(), config.eos_token()), (Some("<s>"), Some("</s>")));
        assert_eq!(config.templates, [("default".to_owned(), "T".to_owned())]);
        assert_eq!((config.tokens.len(), config.adds_bos), (2, true));
        for json in [r#"{"bos_token": null}"#, r#"{"bos_token": "<s>", "add_bos_token": false}"#] {
            assert!(!TokenizerConfig::from_json(json.as_bytes()).unwrap().adds_bos, "{json}");
        }
        let list = br#"{"chat_template": [{"name": "default", "template": "A"}, {"name": "tool_use", "template": "B"}]}"#;
        assert_eq!(TokenizerConfig::from_json(list).unwrap().templates.len(), 2);
        assert_eq!(TokenizerConfig::from_json(b"{}").unwrap(), TokenizerConfig::default());
    }

    #[test]
    fn broken_configurations_are_errors() {
        for json in ["", "[]", r#"{"chat_template": 1}"#, r#"{"chat_template": [{"name": "x"}]}"#] {
            let error = TokenizerConfig::from_json(json.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("tokenizer_config.json: "), "{error}");
        }
    }
}
