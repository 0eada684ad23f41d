//! Budgets: a small card is simulated by a limit, what does not fit is refused in figures, and the
//! accounts are right at every moment.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{discover_in, options_in, runtime};
use polaris_core::DType;
use polaris_runtime::{
    Buffer, DeviceExt, DeviceId, DeviceRef, Error, MemoryLimit, MemoryUse, Runtime,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// Runs the check once per device, each time with a runtime that allows it this many bytes.
fn on_every_limited_device(bytes: u64, check: impl Fn(&DeviceRef)) {
    let folder = TempDir::new().unwrap();
    let ids: Vec<DeviceId> = runtime().devices().iter().map(|device| device.id()).collect();
    for device in ids {
        let limits = vec![MemoryLimit { device: device.into(), bytes }];
        let runtime = discover_in(folder.path(), limits);
        let limited = runtime.device(device).unwrap();
        assert_eq!(use_of(limited), MemoryUse { limit: bytes, ..MemoryUse::default() });
        check(limited);
    }
}

fn use_of(device: &DeviceRef) -> MemoryUse {
    device.allocator().memory_use()
}

fn bytes(device: &DeviceRef, len: u64) -> polaris_runtime::Result<Buffer> {
    device.allocate(DType::U8, len as usize)
}

#[track_caller]
fn assert_out_of_memory<T: std::fmt::Debug>(
    found: polaris_runtime::Result<T>,
    figures: [u64; 3],
) -> String {
    match &found {
        Err(Error::OutOfMemory { asked, used, available, .. }) => {
            assert_eq!([*asked, *used, *available], figures);
        }
        other => panic!("{other:?}"),
    }
    found.unwrap_err().to_string()
}

#[test]
fn what_exceeds_the_budget_is_refused_in_figures() {
    on_every_limited_device(MIB, |device| {
        let half = bytes(device, MIB / 2).unwrap();
        let message = assert_out_of_memory(bytes(device, MIB), [MIB, MIB / 2, MIB / 2]);
        let live = "live, largest first: u8 [524288] of 512 KiB";
        for part in [&device.id().to_string(), "1 MiB", "512 KiB", "memory limit", live] {
            assert!(message.contains(part), "{message}");
        }
        let other_half = bytes(device, MIB / 2).unwrap();
        assert_out_of_memory(bytes(device, 1), [1, MIB, 0]);
        assert_out_of_memory(device.upload(&[0f64; 3]), [24, MIB, 0]);
        assert_eq!(use_of(device).used, MIB, "a refusal takes nothing");
        let view = half.view(0..1).unwrap();
        drop(half);
        assert_out_of_memory(bytes(device, 1), [1, MIB, 0]);
        // The view was the last to hold the memory.
        drop(view);
        bytes(device, MIB / 2).unwrap().fill(1u8).unwrap();
        drop(other_half);
        bytes(device, MIB).unwrap().fill(1u8).unwrap();
    });
}

#[test]
fn freed_blocks_that_are_kept_give_way() {
    on_every_limited_device(MIB, |device| {
        for len in [3 * MIB / 4, MIB, MIB / 2 + 4096, 1000, MIB] {
            let buffer = bytes(device, len).unwrap();
            buffer.fill(1u8).unwrap();
            drop(buffer);
            let memory = use_of(device);
            assert!(memory.used == 0 && memory.cached >= len, "{memory:?}");
            assert!(memory.cached <= MIB, "{memory:?}");
        }
        assert_eq!(use_of(device).peak, MIB);
        device.allocator().trim();
        assert_eq!(use_of(device).cached, 0);
    });
}

#[test]
fn rounding_does_not_refuse_what_fits_exactly() {
    on_every_limited_device(MIB + 3, |device| {
        let all = bytes(device, MIB + 3).unwrap();
        assert_eq!(use_of(device).used, MIB + 3);
        assert_out_of_memory(bytes(device, 1), [1, MIB + 3, 0]);
        drop(all);
        let (_small, rest) = (bytes(device, 64).unwrap(), MIB + 3 - 64);
        assert_out_of_memory(bytes(device, rest + 1), [rest + 1, 64, rest]);
        bytes(device, rest).unwrap();
    });
}

#[test]
fn one_allocation_beyond_the_drivers_limit_is_refused() {
    for device in runtime().devices() {
        let max_bytes = device.capabilities().max_allocation_bytes;
        let before = use_of(device);
        for asked_for in [max_bytes + 1, max_bytes * 2, i64::MAX as u64] {
            match bytes(device, asked_for) {
                Err(Error::AllocationTooLarge { device: id, asked, max }) => {
                    assert_eq!((id, asked, max), (device.id(), asked_for, max_bytes));
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(use_of(device), before);
    }
}

#[test]
fn a_limit_that_makes_no_sense_is_an_error_that_says_what_to_do() {
    let folder = TempDir::new().unwrap();
    let found = |device: DeviceId, bytes| {
        let limits = vec![MemoryLimit { device: device.into(), bytes }];
        Runtime::discover(&options_in(folder.path(), limits))
    };
    for device in runtime().devices() {
        let has = device.capabilities().memory_bytes;
        let refused = found(device.id(), has + 1).unwrap_err();
        assert!(matches!(refused, Error::InvalidMemoryLimit { .. }), "{refused:?}");
        let message = refused.to_string();
        for part in [&format!("{}={}", device.id(), has + 1), "has only", "gpu=512MiB"] {
            assert!(message.contains(part), "{message}");
        }
        let all = found(device.id(), has).unwrap();
        assert_eq!(use_of(all.device(device.id()).unwrap()).limit, has);
    }
    let message = found(DeviceId::OpenCl(99), MIB).unwrap_err().to_string();
    assert!(message.contains("opencl:99") && message.contains("cpu ("), "{message}");
}

#[test]
fn each_limit_holds_for_its_own_device() {
    let folder = TempDir::new().unwrap();
    let ids: Vec<DeviceId> = runtime().devices().iter().map(|device| device.id()).collect();
    let limit = |device: &DeviceId| match device {
        DeviceId::Cpu => MIB,
        DeviceId::OpenCl(index) => (*index as u64 + 2) * MIB,
    };
    let limits =
        ids.iter().map(|id| MemoryLimit { device: (*id).into(), bytes: limit(id) }).collect();
    let runtime = discover_in(folder.path(), limits);
    for device in runtime.devices() {
        assert_eq!(use_of(device).limit, limit(&device.id()));
        let _all = bytes(device, limit(&device.id())).unwrap();
        assert_out_of_memory(bytes(device, 1), [1, limit(&device.id()), 0]);
    }
}

#[test]
fn a_limit_that_is_lowered_spares_live_buffers() {
    on_every_limited_device(4 * MIB, |device| {
        let live = device.upload(&vec![7u8; 2 << 20]).unwrap();
        drop(bytes(device, MIB).unwrap());
        device.allocator().set_limit(MIB);
        let memory = use_of(device);
        assert_eq!((memory.used, memory.cached, memory.limit), (2 * MIB, 0, MIB));
        assert_out_of_memory(bytes(device, 1), [1, 2 * MIB, 0]);
        assert_eq!(live.to_vec::<u8>().unwrap(), vec![7u8; 2 << 20]);
        drop(live);
        assert_eq!(use_of(device).cached, 0, "more than the limit is not kept");
        bytes(device, MIB).unwrap();
    });
}

/// What an allocation may count for: itself at least, at most an eighth more and a page.
fn most(bytes: u64) -> u64 {
    let rounded =
        if bytes < 4096 { bytes.max(1).next_multiple_of(64) } else { bytes.next_multiple_of(4096) };
    rounded + rounded / 8
}

#[test]
fn accounts_are_exact_to_rounding() {
    // Sizes to allocate, or (odd) the index of a live buffer to drop.
    let steps = prop::collection::vec((any::<bool>(), 0..200_000u64), 1..60);
    on_every_limited_device(8 * MIB, |device| {
        let mut runner = TestRunner::new_with_rng(
            Config { cases: 24, failure_persistence: None, ..Config::default() },
            proptest::test_runner::TestRng::deterministic_rng(
                proptest::test_runner::RngAlgorithm::ChaCha,
            ),
        );
        let result = runner.run(&steps, |steps| {
            let mut live: Vec<Buffer> = Vec::new();
            let (mut peak, earlier) = (0, use_of(device).peak);
            for (drop_one, number) in steps {
                if drop_one && !live.is_empty() {
                    live.swap_remove(number as usize % live.len());
                } else {
                    live.push(bytes(device, number).unwrap());
                }
                let memory = use_of(device);
                let least: u64 = live.iter().map(|buffer| buffer.bytes() as u64).sum();
                let most: u64 = live.iter().map(|buffer| most(buffer.bytes() as u64)).sum();
                prop_assert!((least..=most).contains(&memory.used), "{memory:?} {least} {most}");
                prop_assert!(memory.used + memory.cached <= memory.limit, "{memory:?}");
                peak = peak.max(memory.used);
                prop_assert_eq!(memory.peak, peak.max(earlier));
            }
            drop(live);
            prop_assert_eq!(use_of(device).used, 0);
            Ok(())
        });
        result.unwrap();
    });
}

#[test]
fn threads_that_allocate_and_free_leave_nothing_behind() {
    on_every_limited_device(2 * MIB, |device| {
        std::thread::scope(|scope| {
            for thread in 0..8u64 {
                scope.spawn(move || allocate_and_free(device, thread));
            }
        });
        let memory = use_of(device);
        assert_eq!(memory.used, 0);
        assert!(memory.peak <= 2 * MIB && memory.cached <= 2 * MIB, "{memory:?}");
        device.allocator().trim();
        assert_eq!(use_of(device), MemoryUse { used: 0, cached: 0, ..memory });
        bytes(device, 2 * MIB).unwrap();
    });
}

#[test]
fn two_threads_never_both_get_the_last_room() {
    on_every_limited_device(1 << 16, |device| {
        let holders = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        let Ok(all) = bytes(device, 1 << 16) else { continue };
                        assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                        holders.fetch_sub(1, Ordering::SeqCst);
                        drop(all);
                        // So that the next one comes from the driver, which takes its time.
                        device.allocator().trim();
                    }
                });
            }
        });
        assert_eq!((use_of(device).used, use_of(device).peak), (0, 1 << 16));
    });
}

/// Holds a few buffers at a time; together the threads ask for more than there is.
fn allocate_and_free(device: &DeviceRef, thread: u64) {
    let mut held = std::collections::VecDeque::new();
    let mut state = thread + 1;
    for _ in 0..300 {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let len = (state >> 33) % 150_000;
        match bytes(device, len) {
            Ok(buffer) => held.push_back(buffer),
            Err(Error::OutOfMemory { asked, .. }) => assert_eq!(asked, len),
            Err(other) => panic!("{other}"),
        }
        if held.len() > 3 {
            held.pop_front();
        }
    }
}
