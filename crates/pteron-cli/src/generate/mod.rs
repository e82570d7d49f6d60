//! `pteron run` and `pteron chat`: open a model, generate text, print it as it is generated.

mod args;
mod bundled;
mod chat;
mod commands;
mod file;
mod history;
mod line_editor;
mod model;
mod prompt_file;
mod run;
mod speed;

use pteron_llm::Sampling;

pub(crate) use args::{Chat, Run};
pub(crate) use bundled::{NAME as BUNDLED_NAME, program as bundled_program};
pub(crate) use chat::run as chat;
#[cfg(feature = "serve")]
pub(crate) use model::{flags, program, sources};
pub(crate) use model::{load_bundled, sidecar};
pub(crate) use run::run;

use crate::cli::ModelArgs;

/// The sampling where the command line sets none. The bundled model repeats itself when it is decoded greedily, and loses the thread
/// where improbable tokens are sampled.
fn defaults(args: &ModelArgs) -> Sampling {
    let greedy = Sampling::default();
    if args.model.is_some() {
        return greedy;
    }
    greedy.with_temperature(0.8).with_min_p(0.1).with_repetition_penalty(1.15)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::cli::{Cli, Command};

    fn sampling(args: &[&str]) -> Sampling {
        let Command::Run(run) = Cli::try_parse_from([&["pteron", "run"][..], args].concat()).unwrap().command else {
            panic!("another command");
        };
        run.generation.options(defaults(&run.model), None).unwrap().sampling
    }

    #[test]
    fn defaults_apply_to_the_bundled_model_without_a_temperature() {
        let own = sampling(&[]);
        assert!(own.temperature > 0.0 && own.min_p > 0.0 && own.repetition_penalty > 1.0, "{own:?}");
        assert_eq!(sampling(&["--min-p", "0.3"]), own.with_min_p(0.3));
        for temperature in ["0", "0.5"] {
            let alone = Sampling::default().with_temperature(temperature.parse().unwrap());
            assert_eq!(sampling(&["-t", temperature]), alone);
        }
        assert_eq!(sampling(&["--model", "llama.pte"]), Sampling::default());
    }

    #[test]
    fn the_help_states_the_defaults() {
        let mut command = Cli::command();
        let help = command.find_subcommand_mut("run").unwrap().render_long_help().to_string();
        let Sampling { temperature, min_p, repetition_penalty, .. } = sampling(&[]);
        for (option, value) in
            [("--temperature", temperature), ("--min-p", min_p), ("--repetition-penalty", repetition_penalty)]
        {
            let text = help.split(option).nth(1).unwrap().split("\n\n").next().unwrap();
            assert!(text.contains(&format!("{value}]")), "{option}: {text}");
        }
    }
}
