//! The texts of one request while they are generated.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use pteron_llm::{GenerationOptions, TokenId};
use tokio::sync::OwnedSemaphorePermit;

use crate::backend::{Backend, BackendError, GenerateRequest, Token, TokenSource, Usage};
use crate::constraint::Constraints;
use crate::error::ApiError;
use crate::slot::{LoadedModel, Slot};
use crate::state::{App, Caller, Target};

/// What a handler has decided about a request.
pub(crate) struct Job {
    pub(crate) target: Target,
    pub(crate) model: Arc<LoadedModel>,
    pub(crate) prompts: Vec<Vec<TokenId>>,
    /// Texts per prompt.
    pub(crate) n: usize,
    pub(crate) options: GenerationOptions,
    pub(crate) constraints: Constraints,
    /// The field of the prompt, for errors.
    pub(crate) prompt_field: &'static str,
}

/// The texts of a request. Dropping it cancels those that are not complete.
pub(crate) struct Generation {
    choices: Vec<Choice>,
    n: usize,
    /// Whose turn it is, so that no text waits for another.
    turn: usize,
    slot: Arc<Slot>,
    model: Arc<LoadedModel>,
    _permit: OwnedSemaphorePermit,
}

struct Choice {
    source: Option<Box<dyn TokenSource>>,
    usage: Usage,
}

impl Generation {
    /// Queues all texts of a request, or none.
    pub(crate) fn start(app: &App, caller: Caller, job: Job, permit: OwnedSemaphorePermit) -> Result<Self, ApiError> {
        let mut choices = Vec::with_capacity(job.prompts.len().saturating_mul(job.n));
        for prompt in &job.prompts {
            let prompt_tokens = prompt.len();
            let usage = Usage { prompt_tokens, ..Usage::default() };
            for sample in 0..job.n {
                if job.options.max_tokens == Some(0) {
                    choices.push(Choice { source: None, usage });
                    continue;
                }
                let mut options = job.options.clone();
                options.sampling.seed = options.sampling.seed.wrapping_add(u64::try_from(sample).unwrap_or(0));
                let request = GenerateRequest {
                    prompt: prompt.clone(),
                    options,
                    key: caller.key,
                    timeout: app.options.limits.generation,
                    // Clients with other keys learn nothing from the time that a prompt takes.
                    cache_salt: caller.key,
                    adapter: job.target.adapter.clone(),
                    constraint: job.constraints.next()?,
                };
                let source = job.model.backend.submit(request).map_err(|error| {
                    job.target.slot.note(&job.model, &error);
                    let field = match error {
                        BackendError::PromptTooLong(_) => Some(job.prompt_field),
                        BackendError::UnknownAdapter(_) => Some("model"),
                        _ => None,
                    };
                    let error = ApiError::from(error);
                    if let Some(field) = field { error.at(field) } else { error }
                })?;
                choices.push(Choice { source: Some(source), usage });
            }
        }
        Ok(Self { choices, n: job.n.max(1), turn: 0, slot: job.target.slot, model: job.model, _permit: permit })
    }

    /// The number of texts.
    pub(crate) fn len(&self) -> usize {
        self.choices.len()
    }

    pub(crate) fn backend(&self) -> &dyn Backend {
        &*self.model.backend
    }

    pub(crate) fn shared_backend(&self) -> Arc<dyn Backend> {
        Arc::clone(&self.model.backend)
    }

    /// Returns the next token of any text, with the text's number; `None` when all are complete. An error ends all of them.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<(usize, Token), ApiError>>> {
        let count = self.choices.len();
        let mut running = false;
        for offset in 0..count {
            let index = (self.turn + offset) % count;
            let choice = &mut self.choices[index];
            let Some(source) = &mut choice.source else { continue };
            match source.poll_token(context) {
                Poll::Pending => running = true,
                Poll::Ready(Some(Ok(token))) => {
                    self.turn = index + 1;
                    choice.usage = source.usage();
                    return Poll::Ready(Some(Ok((index, token))));
                }
                Poll::Ready(Some(Err(error))) => {
                    self.choices.iter_mut().for_each(|choice| choice.source = None);
                    self.slot.note(&self.model, &error);
                    return Poll::Ready(Some(Err(error.into())));
                }
                Poll::Ready(None) => {
                    choice.usage = source.usage();
                    choice.source = None;
                }
            }
        }
        if running { Poll::Pending } else { Poll::Ready(None) }
    }

    pub(crate) async fn next(&mut self) -> Option<Result<(usize, Token), ApiError>> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// Tokens of the request: each prompt counts once, however many texts continue it.
    pub(crate) fn usage(&self) -> Usage {
        let mut total = Usage::default();
        for (index, choice) in self.choices.iter().enumerate() {
            if index % self.n == 0 {
                total.prompt_tokens += choice.usage.prompt_tokens;
                total.cached_tokens += choice.usage.cached_tokens;
            }
            total.generated_tokens += choice.usage.generated_tokens;
        }
        total
    }
}
