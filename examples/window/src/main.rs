//! A window that continues what you write: `cargo run --release --manifest-path examples/window/Cargo.toml -- [folder of a model]`.
//!
//! The engine runs the model on a thread of its own. The window never waits for it: each frame takes the tokens that are there, and the
//! next token wakes the window.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use eframe::egui;
use pteron_llm::{Engine, EngineError, EngineOptions, EngineRequest, GenerationOptions, Sampling, TokenStream};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = std::env::args().nth(1);
    let bundled = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/demo");
    let engine = Engine::open_blocking(model.as_deref().unwrap_or(bundled), EngineOptions::default())?;
    let window = Window { engine, text: "A thread is".to_owned(), stream: None, problem: String::new() };
    eframe::run_native("Pteron", eframe::NativeOptions::default(), Box::new(|_| Ok(Box::new(window))))?;
    Ok(())
}

struct Window {
    engine: Engine,
    text: String,
    /// The text that is being generated. Dropping it stops it.
    stream: Option<TokenStream>,
    problem: String,
}

/// Has the window drawn again when a token is there.
struct Repaint(egui::Context);

impl Wake for Repaint {
    fn wake(self: Arc<Self>) {
        self.0.request_repaint();
    }
}

impl Window {
    fn start(&mut self) {
        let sampling = Sampling::default().with_temperature(0.8).with_min_p(0.1).with_repetition_penalty(1.15);
        let options = GenerationOptions::default().with_sampling(sampling).with_max_tokens(100);
        let prompt = self.engine.text_prompt(&self.text).map_err(EngineError::from);
        let submitted = prompt.and_then(|prompt| self.engine.submit(EngineRequest::new(prompt).with_options(options)));
        match submitted {
            Ok(stream) => (self.stream, self.problem) = (Some(stream), String::new()),
            Err(error) => self.problem = error.to_string(),
        }
    }

    /// Takes the tokens that are there.
    fn take(&mut self, context: &egui::Context) {
        let waker = Waker::from(Arc::new(Repaint(context.clone())));
        while let Some(stream) = &mut self.stream {
            // Nothing is lost with a future of `next` that is dropped.
            let polled = pin!(stream.next()).poll(&mut Context::from_waker(&waker));
            match polled {
                Poll::Ready(Ok(Some(token))) => self.text += &token.text,
                Poll::Ready(Ok(None)) => self.stream = None,
                Poll::Ready(Err(error)) => (self.stream, self.problem) = (None, error.to_string()),
                Poll::Pending => return,
            }
        }
    }
}

impl eframe::App for Window {
    fn ui(&mut self, ui: &mut egui::Ui, _: &mut eframe::Frame) {
        self.take(&ui.ctx().clone());
        egui::CentralPanel::default().show(ui, |ui| {
            let running = self.stream.is_some();
            ui.horizontal(|ui| {
                if ui.button(if running { "Stop" } else { "Continue" }).clicked() {
                    if running { self.stream = None } else { self.start() }
                }
                ui.label(&self.problem);
            });
            let text = egui::TextEdit::multiline(&mut self.text).desired_width(f32::INFINITY).interactive(!running);
            egui::ScrollArea::vertical().stick_to_bottom(true).show(ui, |ui| ui.add_sized(ui.available_size(), text));
        });
    }
}
