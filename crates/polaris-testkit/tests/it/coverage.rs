//! What a check runs: every kernel that there is, the same each time, and who is to blame for a
//! crash. And one check, so that each kernel of each device runs at least once.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use polaris_ops::suite::{CaseParameters, kernel_of};
use polaris_ops::{Block, FAMILIES};
use polaris_runtime::DeviceRef;
use polaris_testkit::{
    Event, Job, Level, Listed, Scope, Tally, Task, Unit, devices_under_test, own_runtime, run_job,
};

/// The kernels of every case on a device: what each level is chosen from.
fn listed(device: &DeviceRef) -> Vec<Event> {
    let mut events = Vec::new();
    let task = Task::List(Scope::default());
    let job = Job { task, skip: Vec::new(), time_limit: None, keep_programs: true };
    run_job(device, &job, &|| false, &mut |event| events.push(event));
    events
}

/// The lists of all devices, made once: they take seconds.
fn listed_under_test() -> impl Iterator<Item = (&'static DeviceRef, &'static [Event])> {
    static LISTED: OnceLock<Vec<Vec<Event>>> = OnceLock::new();
    let devices = devices_under_test();
    let listed = LISTED.get_or_init(|| devices.iter().map(listed).collect());
    devices.iter().zip(listed.iter().map(Vec::as_slice))
}

/// What a check of a level would run.
fn chosen(listed: &[Event], level: Level) -> Vec<Unit> {
    let mut tally = Tally::default();
    listed.iter().for_each(|event| tally.add(event.clone()));
    tally.choose(level);
    tally.left().to_vec()
}

/// Every case of the full check, as the suites describe them.
fn full_cases(mut visit: impl FnMut(usize, polaris_ops::suite::Case)) {
    for (layout, parameters) in CaseParameters::fixed().iter().enumerate() {
        for (number, suite) in FAMILIES.iter().enumerate() {
            for variant in (0..(suite.variants)()).filter(|&v| (suite.takes)(v, layout)) {
                visit(number, (suite.case)(variant, parameters));
            }
        }
    }
}

/// Entries of kernel lists that need no case: the list is shared with operations that have such a
/// kernel, or the kernel is made for some kinds of devices, and the tests of products run it there.
const WITHOUT_CASE: &[&str] =
    &["ConvolutionWeightGradient Product", "MatMul Tiled", "MatMul Tensor"];

/// A kernel whose suite has no case that reaches it would never be checked.
#[test]
fn a_standard_check_runs_every_kernel_once() {
    for (device, listed) in listed_under_test() {
        let units = chosen(listed, Level::Standard);
        let run: BTreeSet<String> = units.iter().map(|unit| unit.kernel.clone()).collect();
        let kernels = |names: &BTreeSet<String>| -> BTreeSet<String> {
            names.iter().map(|name| kernel_of(name)).collect()
        };
        let (mut exist, mut entries, mut reached) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        full_cases(|_, case| {
            for (entry, is_supported) in case.entries(device).unwrap() {
                if is_supported && case.computes() {
                    reached.insert(entry.clone());
                }
                entries.insert(entry);
            }
            if case.computes() {
                exist.extend(case.kernels(device).unwrap());
            }
        });
        let missing: Vec<_> = kernels(&exist).difference(&kernels(&run)).cloned().collect();
        assert!(missing.is_empty(), "{}: no case runs {missing:?}", device.id());
        let mut unreached: Vec<_> = entries.difference(&reached).collect();
        unreached.retain(|entry| !WITHOUT_CASE.iter().any(|known| entry.contains(known)));
        assert!(unreached.is_empty(), "{}: no case reaches {unreached:?}", device.id());
        // Hardly any kernel of a driver runs twice: each run costs a program. Only products with weights in blocks do,
        // whose factors may be rounded on the CPU, and linear layers, which may be gated.
        let most = kernels(&exist).len() + 30 + 3 * Block::ALL.len();
        let runs = units.len();
        assert!(
            device.as_cpu().is_some() || runs < most,
            "{runs} runs, fewer than {most} expected"
        );
    }
}

/// The other tests run arbitrary cases, which may miss a kernel. Unless all of it is asked for, every third kernel of an
/// OpenCL device runs: nearly all of the time is the driver's compiler.
#[test]
fn every_kernel_is_right_in_a_standard_check() {
    for (device, listed) in listed_under_test() {
        let mut units = chosen(listed, Level::Standard);
        if device.as_opencl().is_some() && !crate::in_full() {
            units = units.into_iter().step_by(3).collect();
        }
        let (task, expected) = (Task::Run(units.clone()), units.len());
        let job = Job { task, skip: Vec::new(), time_limit: None, keep_programs: true };
        let (mut ran, mut wrong) = (0, Vec::new());
        run_job(device, &job, &|| false, &mut |event| {
            if let Event::Finding { kernel, outcome, .. } = event {
                ran += 1;
                wrong.extend(outcome.err().map(|reason| format!("{kernel}: {reason}")));
            }
        });
        assert!(wrong.is_empty(), "{}: {wrong:#?}", device.id());
        assert_eq!(ran, expected, "{}", device.id());
    }
}

#[test]
fn the_choice_is_the_same_each_time() {
    for ((device, first), same) in listed_under_test().zip(own_runtime().devices()) {
        let second = listed(same);
        for level in [Level::Quick, Level::Standard, Level::Full] {
            let units = chosen(first, level);
            assert!(!units.is_empty());
            assert_eq!(units, chosen(&second, level), "{} {level:?}", device.id());
        }
    }
}

/// A check of two kernels in one case and one of them in another.
fn small_check() -> Tally {
    let mut tally = Tally::default();
    for (case, kernels) in [(0, vec!["one", "two"]), (1, vec!["one"])] {
        let kernels = kernels.into_iter().map(str::to_owned).collect();
        tally.add(Event::Listed { case, listed: Listed { kernels, computes: true } });
    }
    tally.choose(Level::Full);
    assert_eq!(tally.left().len(), 3);
    tally
}

fn begin(tally: &mut Tally, case: usize, kernel: &str) {
    tally.add(Event::Begin { case, kernel: kernel.to_owned() });
}

#[test]
fn what_fails_beside_others_is_still_to_be_run() {
    let mut tally = small_check();
    let outcome = Err("the device was lost".to_owned());
    tally.add_beside_others(Event::Finding { case: 1, kernel: "one".to_owned(), outcome });
    begin(&mut tally, 0, "one");
    begin(&mut tally, 0, "two");
    tally.ended_beside_others();
    assert!(!tally.is_under_way());
    assert_eq!(tally.left().len(), 3);
    assert_eq!(tally.wrong_kernels(), Vec::<String>::new());
}

#[test]
fn a_crash_of_the_only_job_blames_the_kernel_under_way() {
    let mut tally = small_check();
    begin(&mut tally, 0, "one");
    assert_eq!(tally.crashed("it fell over"), Some(0));
    assert_eq!(tally.wrong_kernels(), ["one"]);
    assert_eq!(tally.left(), [Unit { case: 0, kernel: "two".to_owned() }]);
    let report = tally.into_report();
    assert_eq!((report.crashes, report.kernels_run, report.kernels_exist), (1, 1, 2));
}

#[test]
fn what_is_open_ended_in_a_name_makes_no_kernel() {
    for (name, kernel) in [
        ("add_f32_vector", "add_f32_vector"),
        ("fused_0123456789abcdef_bf16_strided", "fused_bf16_strided"),
        ("fused_convolution_f16_tiled_gelu_tanh", "fused_convolution_f16_tiled"),
        ("convolution_f16_tiled", "convolution_f16_tiled"),
    ] {
        assert_eq!(kernel_of(name), kernel);
    }
}
