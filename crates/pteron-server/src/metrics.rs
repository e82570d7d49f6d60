//! `/metrics`, in the text form of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::backend::{Durations, Statistics};
use crate::state::App;

/// Upper bounds of the time until the head of an answer, in seconds.
const BOUNDS: [f64; 10] = [0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 5.0, 20.0, 60.0, 300.0];

/// What the server itself counts.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    requests: Mutex<Requests>,
}

/// Routes and statuses are few, whatever clients send.
#[derive(Debug, Default)]
struct Requests {
    by_route: BTreeMap<(String, u16), u64>,
    counts: [u64; BOUNDS.len() + 1],
    sum: f64,
}

impl Metrics {
    /// Counts a request. `route` is the pattern that it matched, never the path that the client wrote.
    pub(crate) fn request(&self, route: &str, status: u16, time: Duration) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.by_route.entry((route.to_owned(), status)).or_default() += 1;
        let seconds = time.as_secs_f64();
        let bucket = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        requests.counts[bucket] += 1;
        requests.sum += seconds;
    }
}

/// Answers with all metrics.
pub(crate) async fn handle(State(app): State<Arc<App>>) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], render(&app)).into_response()
}

/// One value per model.
type Value = fn(&Statistics) -> f64;

#[expect(clippy::cast_precision_loss, reason = "Prometheus stores doubles")]
const fn number(count: u64) -> f64 {
    count as f64
}

fn size(count: usize) -> f64 {
    number(u64::try_from(count).unwrap_or(u64::MAX))
}

fn block_share(statistics: &Statistics) -> f64 {
    if statistics.blocks_total == 0 { 0.0 } else { size(statistics.blocks_used) / size(statistics.blocks_total) }
}

/// Name, kind, help and value of each metric of a model.
const OF_MODELS: [(&str, &str, &str, Value); 20] = [
    ("pteron_requests_waiting", "gauge", "Requests that wait in the engine.", |s| size(s.waiting)),
    ("pteron_requests_running", "gauge", "Requests that run in the engine.", |s| size(s.running)),
    ("pteron_kv_blocks", "gauge", "Blocks of the KV cache.", |s| size(s.blocks_total)),
    ("pteron_kv_blocks_used", "gauge", "Blocks of the KV cache that requests hold.", |s| size(s.blocks_used)),
    ("pteron_kv_blocks_cached", "gauge", "Blocks kept for prompts with the same prefix.", |s| size(s.blocks_cached)),
    ("pteron_prompt_tokens_total", "counter", "Tokens of prompts.", |s| number(s.prompt_tokens)),
    ("pteron_generated_tokens_total", "counter", "Generated tokens.", |s| number(s.generated_tokens)),
    ("pteron_cached_tokens_total", "counter", "Tokens of prompts that were cached.", |s| number(s.cached_tokens)),
    ("pteron_preemptions_total", "counter", "Requests that lost their blocks and were computed again.", |s| {
        number(s.preemptions)
    }),
    ("pteron_drafted_tokens_total", "counter", "Drafted tokens.", |s| number(s.drafted)),
    ("pteron_accepted_tokens_total", "counter", "Drafted tokens that were right.", |s| number(s.accepted)),
    ("pteron_steps_total", "counter", "Steps of the engine.", |s| number(s.steps)),
    ("pteron_gpu_seconds_total", "counter", "Seconds of the GPU, where the device has timestamps.", |s| s.gpu_seconds),
    ("pteron_texts_finished_total", "counter", "Complete texts.", |s| number(s.finished)),
    ("pteron_texts_cancelled_total", "counter", "Texts whose client went away.", |s| number(s.cancelled)),
    ("pteron_texts_failed_total", "counter", "Texts that ended with an error.", |s| number(s.failed)),
    ("vllm:num_requests_waiting", "gauge", "As pteron_requests_waiting.", |s| size(s.waiting)),
    ("vllm:num_requests_running", "gauge", "As pteron_requests_running.", |s| size(s.running)),
    ("vllm:kv_cache_usage_perc", "gauge", "Share of the KV cache that requests hold, from 0 to 1.", block_share),
    ("vllm:num_preemptions_total", "counter", "As pteron_preemptions_total.", |s| number(s.preemptions)),
];

/// One histogram per model.
type Histogram = fn(&Statistics) -> &Durations;

const HISTOGRAMS: [(&str, &str, Histogram); 3] = [
    ("pteron_time_to_first_token_seconds", "From a request to its first token.", |s| &s.time_to_first_token),
    ("pteron_inter_token_seconds", "Between two tokens of a text.", |s| &s.inter_token),
    ("pteron_queue_seconds", "From a request to its first step.", |s| &s.queue_time),
];

fn render(app: &App) -> String {
    let mut out = String::new();
    head(&mut out, "pteron_ready", "gauge", "Whether all models are loaded and requests are accepted.");
    line(&mut out, "pteron_ready", "", f64::from(u8::from(app.is_ready())));
    head(&mut out, "pteron_requests_active", "gauge", "Requests that generate or wait.");
    line(&mut out, "pteron_requests_active", "", size(app.active()));
    requests(&mut out, &app.metrics);

    let models: Vec<(String, Statistics)> = app
        .slots()
        .iter()
        .filter_map(|slot| Some((slot.source.name.clone(), slot.loaded().ok()?.backend.statistics())))
        .collect();
    for (name, kind, help, value) in OF_MODELS {
        head(&mut out, name, kind, help);
        for (model, statistics) in &models {
            line(&mut out, name, &labels(model), value(statistics));
        }
    }
    for (name, help, durations) in HISTOGRAMS {
        head(&mut out, name, "histogram", help);
        for (model, statistics) in &models {
            histogram(&mut out, name, &labels(model), durations(statistics));
        }
    }
    let config = "vllm:cache_config_info";
    head(&mut out, config, "gauge", "The KV cache, in labels.");
    for (model, statistics) in &models {
        let cache = format!(",block_size=\"{}\",num_gpu_blocks=\"{}\"", statistics.block_size, statistics.blocks_total);
        line(&mut out, config, &(labels(model) + &cache), 1.0);
    }
    out
}

fn requests(out: &mut String, metrics: &Metrics) {
    let requests = metrics.requests.lock().unwrap_or_else(PoisonError::into_inner);
    let name = "pteron_http_requests_total";
    head(out, name, "counter", "Requests by route and status.");
    for ((route, status), count) in &requests.by_route {
        line(out, name, &format!("route=\"{}\",status=\"{status}\"", escaped(route)), number(*count));
    }
    let durations = Durations { bounds: BOUNDS.to_vec(), counts: requests.counts.to_vec(), sum: requests.sum };
    let name = "pteron_http_response_seconds";
    head(out, name, "histogram", "From a request to the head of its answer.");
    histogram(out, name, "", &durations);
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(out: &mut String, name: &str, labels: &str, value: f64) {
    let _ = match labels {
        "" => writeln!(out, "{name} {value}"),
        labels => writeln!(out, "{name}{{{labels}}} {value}"),
    };
}

/// Dashboards of other engines look for `model_name`.
fn labels(model: &str) -> String {
    format!("model_name=\"{}\"", escaped(model))
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn histogram(out: &mut String, name: &str, labels: &str, durations: &Durations) {
    let separator = if labels.is_empty() { "" } else { "," };
    let bounds = durations.bounds.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
    let mut total = 0;
    for (bound, count) in bounds.zip(&durations.counts) {
        total += count;
        line(out, &format!("{name}_bucket"), &format!("{labels}{separator}le=\"{bound}\""), number(total));
    }
    line(out, &format!("{name}_sum"), labels, durations.sum);
    line(out, &format!("{name}_count"), labels, number(total));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative_and_names_escaped() {
        let mut out = String::new();
        let durations = Durations { bounds: vec![0.1, 1.0], counts: vec![2, 1, 3], sum: 9.5 };
        histogram(&mut out, "t", &labels("a\"b"), &durations);
        let expected = "t_bucket{model_name=\"a\\\"b\",le=\"0.1\"} 2\nt_bucket{model_name=\"a\\\"b\",le=\"1\"} 3\n\
                        t_bucket{model_name=\"a\\\"b\",le=\"+Inf\"} 6\nt_sum{model_name=\"a\\\"b\"} 9.5\nt_count{model_name=\"a\\\"b\"} 6\n";
        assert_eq!(out, expected);
    }
}
