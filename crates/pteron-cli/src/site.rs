//! Documentation tests of pages outside the crates, compiled with the crates that they use. Each page is a module.

macro_rules! page {
    ($name:ident, $path:literal) => {
        #[doc = include_str!($path)]
        mod $name {}
    };
}

page!(start, "../../../docs/site/src/start/rust.md");
page!(front_end, "../../../docs/site/src/guides/front-end.md");
page!(serve, "../../../docs/site/src/guides/serve.md");

page!(pteron, "../../../crates/pteron/README.md");
page!(format, "../../../crates/pteron-format/README.md");
page!(hub, "../../../crates/pteron-hub/README.md");
page!(llm, "../../../crates/pteron-llm/README.md");
page!(server, "../../../crates/pteron-server/README.md");
