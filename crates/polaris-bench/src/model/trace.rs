//! One run of a model as a trace for viewers of the trace-event format.

use polaris_graph::plan::Side;
use polaris_graph::{Profile, Session};
use serde_json::{Value, json};

/// A trace of one run: one track for each device, one event for each instruction. chrome://tracing and
/// ui.perfetto.dev show it.
pub fn trace(title: &str, model: &Session, profile: &Profile) -> Value {
    events(title, &track_names(model), profile)
}

fn track_names(model: &Session) -> [String; 2] {
    Side::ALL.map(|side| match model.device_on(side) {
        Some(device) => format!("{} ({})", device.id(), device.info().name),
        None => side.name().to_owned(),
    })
}

fn events(title: &str, tracks: &[String; 2], profile: &Profile) -> Value {
    let name = |what: &str, tid: usize, name: &str| json!({"ph": "M", "pid": 1, "tid": tid, "name": what, "args": {"name": name}});
    let mut events = vec![name("process_name", 0, title)];
    for side in Side::ALL {
        if profile.rows.iter().any(|row| row.side == side) {
            events.push(name("thread_name", side.index(), &tracks[side.index()]));
        }
    }
    for row in &profile.rows {
        events.push(json!({
            "ph": "X",
            "pid": 1,
            "tid": row.side.index(),
            "name": row.instruction,
            "cat": row.class,
            "ts": row.start_seconds * 1e6,
            "dur": row.run_seconds * 1e6,
            "args": {
                "node": row.node,
                "operator": row.operator,
                "median_us": row.seconds * 1e6,
                "predicted_us": row.predicted_seconds.map(|seconds| seconds * 1e6),
                "flops": row.flops,
                "bytes": row.bytes,
                "gflops": row.gflops,
                "gbs": row.gbs,
                "roofline_share": row.roofline_share,
            },
        }));
    }
    json!({"displayTimeUnit": "ms", "traceEvents": events})
}
