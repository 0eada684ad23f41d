//! Freed blocks are handed out again, but only where in-order execution makes that safe: a block
//! that a foreign queue may still use goes back to the driver.

use std::sync::Arc;

use crate::common::{assert_same, enqueue_add, ints, new_queue, opencl_devices, runtime};
use polaris_runtime::{Buffer, DeviceExt};

/// The bytes the allocator keeps after this buffer is dropped, less those it kept before.
fn cached_by_dropping(buffer: Buffer) -> i64 {
    let device = Arc::clone(buffer.device());
    let before = device.allocator().memory_use();
    drop(buffer);
    let after = device.allocator().memory_use();
    assert!(after.used < before.used);
    after.cached as i64 - before.cached as i64
}

#[test]
fn a_block_that_stayed_on_its_queue_is_used_again_there_only() {
    for device in runtime().devices() {
        let (a, b) = (new_queue(device), new_queue(device));
        let buffer = ints(device, &a, 1024);
        buffer.fill(1i32).unwrap();
        assert_eq!(cached_by_dropping(buffer), 4096);
        let other = ints(device, &b, 1024);
        assert_eq!(device.allocator().memory_use().cached, 4096, "not for another queue");
        let again = ints(device, &a, 1024);
        assert_eq!(device.allocator().memory_use().cached, 0);
        drop((other, again));
    }
}

#[test]
fn a_block_that_left_its_queue_is_not_used_again() {
    for device in runtime().devices() {
        let (a, b) = (new_queue(device), new_queue(device));
        let (source, target) = (ints(device, &a, 1024), ints(device, &b, 1024));
        source.view(0..8).unwrap().copy_to(&target.view(8..16).unwrap()).unwrap();
        assert_eq!(cached_by_dropping(source), 0, "b may still read it");
        assert_eq!(cached_by_dropping(target), 4096, "only its own queue wrote it");
    }
    let runtime = runtime();
    for device in opencl_devices(&runtime) {
        let (a, b) = (new_queue(device), new_queue(device));
        let (x, y) = (ints(device, &a, 1024), ints(device, &b, 1024));
        x.fill(1i32).unwrap();
        b.wait_for(&a.record().unwrap()).unwrap();
        enqueue_add(&b, &x, &y, 1);
        assert_eq!(cached_by_dropping(x), 0, "a kernel on b may still read it");
        assert_same(&y.to_vec::<i32>().unwrap(), &[2; 1024], "x lived until it was read");
        assert_eq!(cached_by_dropping(y), 4096);
    }
}

#[test]
fn a_block_is_used_again_only_for_about_its_size() {
    for device in runtime().devices() {
        let cached = || device.allocator().memory_use().cached;
        drop(device.upload(&[1u8; 9 << 10]).unwrap());
        assert_eq!(cached(), 12 << 10, "whole pages");
        for (other, reused) in
            [(3 << 10, false), (8 << 10, false), (13 << 10, false), (11 << 10, true)]
        {
            let buffer = device.upload(&vec![2u8; other]).unwrap();
            assert_eq!(cached() == 0, reused, "{other}");
            drop(buffer);
            // Leaves the cache as it was: one block of 12 KiB.
            device.allocator().trim();
            drop(device.upload(&[1u8; 9 << 10]).unwrap());
        }
    }
}

#[test]
fn a_block_that_is_used_again_serves_its_new_owner() {
    for device in runtime().devices() {
        for round in 0..100i32 {
            // The kernel's or copy's last use of the old block is before the new one's first.
            let (old, target) =
                (ints(device, device.queue(), 5000), ints(device, device.queue(), 5000));
            old.fill(round).unwrap();
            old.copy_to(&target).unwrap();
            drop(old);
            let new = ints(device, device.queue(), 5000);
            new.fill(-1i32).unwrap();
            assert_same(&target.to_vec::<i32>().unwrap(), &[round; 5000], "copied before");
            assert_same(&new.to_vec::<i32>().unwrap(), &[-1; 5000], "the new owner's");
        }
        assert!(device.allocator().memory_use().peak <= 3 * 20_480, "blocks were used again");
    }
}
