//! Assets: everything a language model needs besides its program. Tokenizer, chat template and metadata are put together here and
//! nowhere else, from files or from bytes.

use crate::error::Result;
use crate::metadata::PartialMetadata;
#[cfg(feature = "templates")]
use crate::template::ChatTemplate;
use crate::tokenizer::Tokenizer;
use crate::tokenizer_config::TokenizerConfig;

/// Tokenizer, chat template and metadata of a model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ModelAssets {
    /// Converts between text and tokens.
    pub tokenizer: Tokenizer,
    /// Renders conversations, where the model has a template.
    #[cfg(feature = "templates")]
    pub chat_template: Option<ChatTemplate>,
    /// Metadata that overrides what the program states.
    pub metadata: PartialMetadata,
}

impl From<Tokenizer> for ModelAssets {
    fn from(tokenizer: Tokenizer) -> Self {
        Self {
            tokenizer,
            #[cfg(feature = "templates")]
            chat_template: None,
            metadata: PartialMetadata::default(),
        }
    }
}

impl ModelAssets {
    /// Creates assets without a tokenizer, for programs that convert between text and tokens themselves. See
    /// [`Tokenizer::ids_only`].
    #[must_use]
    pub fn ids_only() -> Self {
        Tokenizer::ids_only().into()
    }

    /// Sets the chat template.
    #[cfg(feature = "templates")]
    #[must_use]
    pub fn with_chat_template(mut self, template: ChatTemplate) -> Self {
        self.chat_template = Some(template);
        self
    }

    /// Adds metadata that takes precedence over the existing one.
    #[must_use]
    pub fn with_metadata(mut self, metadata: PartialMetadata) -> Self {
        self.metadata = metadata.or(self.metadata);
        self
    }

    /// Parses the contents of a model's files.
    ///
    /// # Errors
    /// A file is malformed, or `tokenizer_config.json` names a token that the tokenizer does not have.
    pub fn from_bytes(files: &AssetBytes<'_>) -> Result<Self> {
        let config = files.tokenizer_config.map(TokenizerConfig::from_json).transpose()?;
        let mut assets = Self::from(Tokenizer::from_bytes(files.tokenizer)?);
        assets.apply_config(config.as_ref())?;
        #[cfg(feature = "templates")]
        if let Some(source) = files.chat_template {
            let tokens = config.map(|config| config.tokens).unwrap_or_default();
            assets.chat_template = Some(ChatTemplate::new(source, tokens)?);
        }
        if let Some(json) = files.sidecar {
            assets.metadata = PartialMetadata::from_sidecar(json)?;
        }
        if let Some(json) = files.generation_config {
            assets.metadata = assets.metadata.or(PartialMetadata::from_generation_config(json)?);
        }
        Ok(assets)
    }

    /// Applies the special tokens and the chat template of `tokenizer_config.json`.
    fn apply_config(&mut self, config: Option<&TokenizerConfig>) -> Result<()> {
        let Some(config) = config else { return Ok(()) };
        self.tokenizer = self.tokenizer.clone().with_bos_eos(config.bos_token(), config.eos_token())?;
        if !config.adds_bos {
            self.tokenizer = self.tokenizer.clone().without_bos_prefix();
        }
        #[cfg(feature = "templates")]
        {
            self.chat_template = ChatTemplate::from_config(config)?;
        }
        Ok(())
    }
}

/// The contents of the files that belong to a model, where there is no file system.
///
/// ```
/// use pteron_llm::{AssetBytes, ModelAssets};
///
/// # #[cfg(feature = "tokenizers")] {
/// # let tokenizer = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tiktoken.model"));
/// let assets = ModelAssets::from_bytes(&AssetBytes::new(tokenizer).with_sidecar(br#"{"context_length": 2048}"#))?;
/// assert_eq!(assets.metadata.context_length, Some(2048));
/// # }
/// # Ok::<(), pteron_llm::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AssetBytes<'a> {
    /// `tokenizer.json`, or a tiktoken or `SentencePiece` model.
    pub tokenizer: &'a [u8],
    /// `tokenizer_config.json`.
    pub tokenizer_config: Option<&'a [u8]>,
    /// `chat_template.jinja`, which takes precedence over templates in `tokenizer_config.json`.
    pub chat_template: Option<&'a str>,
    /// `generation_config.json`, which names the tokens that end a text.
    pub generation_config: Option<&'a [u8]>,
    /// `pteron.json`.
    pub sidecar: Option<&'a [u8]>,
}

impl<'a> AssetBytes<'a> {
    /// Starts with the tokenizer's file alone.
    #[must_use]
    pub fn new(tokenizer: &'a [u8]) -> Self {
        Self { tokenizer, tokenizer_config: None, chat_template: None, generation_config: None, sidecar: None }
    }

    /// Adds `tokenizer_config.json`.
    #[must_use]
    pub fn with_tokenizer_config(mut self, json: &'a [u8]) -> Self {
        self.tokenizer_config = Some(json);
        self
    }

    /// Adds `chat_template.jinja`.
    #[must_use]
    pub fn with_chat_template(mut self, source: &'a str) -> Self {
        self.chat_template = Some(source);
        self
    }

    /// Adds `generation_config.json`.
    #[must_use]
    pub fn with_generation_config(mut self, json: &'a [u8]) -> Self {
        self.generation_config = Some(json);
        self
    }

    /// Adds `pteron.json`.
    #[must_use]
    pub fn with_sidecar(mut self, json: &'a [u8]) -> Self {
        self.sidecar = Some(json);
        self
    }
}

#[cfg(not(target_arch = "wasm32"))]
pub use paths::AssetPaths;

#[cfg(not(target_arch = "wasm32"))]
mod paths {
    use std::path::{Path, PathBuf};

    use super::{ModelAssets, TokenizerConfig};
    use crate::error::{Error, Result};
    use crate::metadata::PartialMetadata;
    #[cfg(feature = "templates")]
    use crate::template::ChatTemplate;
    use crate::tokenizer::Tokenizer;

    /// Size limits. The largest vocabularies take a seventh of the first; the longest templates far less than the last.
    const MAX_TOKENIZER: u64 = 256 << 20;
    const MAX_CONFIG: u64 = 16 << 20;
    #[cfg(feature = "templates")]
    const MAX_TEMPLATE: u64 = 4 << 20;

    /// File names of tokenizers, in the order in which they are looked for.
    const TOKENIZERS: [&str; 2] = ["tokenizer.json", "tokenizer.model"];

    /// Where the files that belong to a program are.
    #[derive(Clone, Debug, Default)]
    #[non_exhaustive]
    pub struct AssetPaths {
        /// `tokenizer.json` or `tokenizer.model`.
        pub tokenizer: Option<PathBuf>,
        /// `tokenizer_config.json`.
        pub tokenizer_config: Option<PathBuf>,
        /// `chat_template.jinja`, which takes precedence over templates in `tokenizer_config.json`.
        pub chat_template: Option<PathBuf>,
        /// `generation_config.json`, which names the tokens that end a text.
        pub generation_config: Option<PathBuf>,
        /// `pteron.json`.
        pub sidecar: Option<PathBuf>,
        /// The program, which errors name.
        program: PathBuf,
    }

    impl AssetPaths {
        /// Finds the files in the folder of a program. Files that are not there are `None`.
        #[must_use]
        pub fn beside(program: impl AsRef<Path>) -> Self {
            let program = program.as_ref();
            Self::beside_or_above(program, program.parent().unwrap_or(program))
        }

        /// Finds the files in the folder of a program, or in the nearest folder above it, up to `top`. Files that are not there are `None`.
        #[must_use]
        pub fn beside_or_above(program: impl AsRef<Path>, top: impl AsRef<Path>) -> Self {
            let (program, top) = (program.as_ref(), top.as_ref());
            let folders = || program.ancestors().skip(1).take_while(|folder| folder.starts_with(top));
            let find = |name: &str| folders().map(|folder| folder.join(name)).find(|path| path.is_file());
            Self {
                tokenizer: TOKENIZERS.iter().find_map(|name| find(name)),
                tokenizer_config: find("tokenizer_config.json"),
                chat_template: find("chat_template.jinja"),
                generation_config: find("generation_config.json"),
                sidecar: find("pteron.json"),
                program: program.to_owned(),
            }
        }

        /// Uses another tokenizer.
        #[must_use]
        pub fn with_tokenizer(mut self, path: impl Into<PathBuf>) -> Self {
            self.tokenizer = Some(path.into());
            self
        }

        /// Uses another chat template.
        #[must_use]
        pub fn with_chat_template(mut self, path: impl Into<PathBuf>) -> Self {
            self.chat_template = Some(path.into());
            self
        }

        /// Reads and parses the files. Blocks the thread while it reads.
        ///
        /// # Errors
        /// [`Error::NoTokenizer`], or [`Error::File`] with the path of a file that cannot be read or is malformed.
        pub fn read(&self) -> Result<ModelAssets> {
            self.read_onto(self.read_tokenizer()?.into())
        }

        /// Reads and parses the files except the tokenizer and puts them into assets that have one.
        ///
        /// # Errors
        /// [`Error::File`] with the path of a file that cannot be read or is malformed.
        pub fn read_onto(&self, mut assets: ModelAssets) -> Result<ModelAssets> {
            let config = self.tokenizer_config.as_deref().map(|path| {
                let json = read(path, MAX_CONFIG)?;
                let config = TokenizerConfig::from_json(&json).map_err(Error::from);
                config.and_then(|config| assets.apply_config(Some(&config)).map(|()| config)).map_err(in_file(path))
            });
            let config = config.transpose()?;
            self.read_template(config, &mut assets)?;
            Ok(assets.with_metadata(self.read_sidecar()?.or(self.read_generation_config()?)))
        }

        /// Reads the metadata in `pteron.json`; empty metadata where there is no such file.
        ///
        /// # Errors
        /// [`Error::File`] if the file cannot be read or is malformed.
        pub fn read_sidecar(&self) -> Result<PartialMetadata> {
            let Some(path) = &self.sidecar else { return Ok(PartialMetadata::default()) };
            let json = read(path, MAX_CONFIG)?;
            PartialMetadata::from_sidecar(&json).map_err(Error::from).map_err(in_file(path))
        }

        /// Reads the tokens that end a text from `generation_config.json`; empty metadata where there is no such file.
        fn read_generation_config(&self) -> Result<PartialMetadata> {
            let Some(path) = &self.generation_config else { return Ok(PartialMetadata::default()) };
            let json = read(path, MAX_CONFIG)?;
            PartialMetadata::from_generation_config(&json).map_err(Error::from).map_err(in_file(path))
        }

        fn read_tokenizer(&self) -> Result<Tokenizer> {
            match &self.tokenizer {
                Some(path) => {
                    let bytes = read(path, MAX_TOKENIZER)?;
                    Tokenizer::from_bytes(&bytes).map_err(Error::from).map_err(in_file(path))
                }
                // Without the feature no file could be read, so none is asked for.
                None if cfg!(not(feature = "tokenizers")) => Ok(Tokenizer::ids_only()),
                None => {
                    let missing = Error::NoTokenizer { looked_for: TOKENIZERS.join(" or ") };
                    Err(in_file(&self.program)(missing))
                }
            }
        }

        #[cfg(feature = "templates")]
        fn read_template(&self, config: Option<TokenizerConfig>, assets: &mut ModelAssets) -> Result<()> {
            let Some(path) = &self.chat_template else { return Ok(()) };
            let source = String::from_utf8_lossy(&read(path, MAX_TEMPLATE)?).into_owned();
            let tokens = config.map(|config| config.tokens).unwrap_or_default();
            let template = ChatTemplate::new(&source, tokens).map_err(Error::from).map_err(in_file(path))?;
            assets.chat_template = Some(template);
            Ok(())
        }

        #[cfg(not(feature = "templates"))]
        #[expect(clippy::unnecessary_wraps, clippy::unused_self, reason = "the signature with the feature")]
        fn read_template(&self, _config: Option<TokenizerConfig>, _assets: &mut ModelAssets) -> Result<()> {
            Ok(())
        }
    }

    impl ModelAssets {
        /// Reads the files in the folder of a program. Blocks the thread while it reads.
        ///
        /// # Errors
        /// As [`AssetPaths::read`].
        pub fn beside(program: impl AsRef<Path>) -> Result<Self> {
            AssetPaths::beside(program).read()
        }
    }

    fn in_file(path: &Path) -> impl FnOnce(Error) -> Error {
        let path = path.to_owned();
        move |source| Error::File { path, source: Box::new(source) }
    }

    fn read(path: &Path, limit: u64) -> Result<Vec<u8>> {
        pteron_files::read(path, limit).map_err(|error| in_file(path)(Error::Read(error.into())))
    }
}

#[cfg(all(test, not(target_arch = "wasm32"), feature = "tokenizers"))]
mod tests {
    use super::*;

    #[test]
    fn files_come_from_the_nearest_folder_up_to_the_top() {
        let outside = pteron_files::TemporaryFolder::new("pteron-assets-").unwrap();
        let top = outside.path().join("model");
        let program = top.join("q4").join("model.pte");
        std::fs::create_dir_all(top.join("q4")).unwrap();
        for path in
            ["pteron.json", "model/tokenizer.json", "model/generation_config.json", "model/q4/generation_config.json"]
        {
            std::fs::write(outside.path().join(path), r#"{"eos_token_id": [7, 8]}"#).unwrap();
        }
        let paths = AssetPaths::beside_or_above(&program, &top);
        assert_eq!(paths.tokenizer, Some(top.join("tokenizer.json")));
        assert_eq!(paths.generation_config, Some(top.join("q4").join("generation_config.json")), "the nearest one");
        assert_eq!(paths.sidecar, None, "beyond the top");
        assert_eq!(AssetPaths::beside(&program).tokenizer, None);
        let assets = paths.read_onto(ModelAssets::ids_only()).unwrap();
        assert_eq!(assets.metadata.eos_ids, Some(vec![7, 8]));
        let given = assets.with_metadata(PartialMetadata::default().with_eos_ids(vec![9]));
        assert_eq!(given.metadata.eos_ids, Some(vec![9]), "flags come first");
    }
}
