//! Predicts the time of an instruction on a device: the measured time of the same instruction, or a roofline
//! estimate.

use std::collections::HashMap;

use polaris_onnx::Graph;
use polaris_runtime::machine::{LinkMeasurement, Measurement};
use polaris_runtime::{Device, DeviceKind};

use super::database::{Database, Entry};
use super::signature::signature;
use super::{Class, Work, class_of, work_of};
use crate::plan::{Instruction, Side, Slot, Step};

/// One direction between host and device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// Of the smallest copy.
    pub latency: f64,
    /// Of a large one.
    pub bytes_per_second: f64,
}

impl Link {
    /// How long a copy takes.
    pub fn seconds(&self, bytes: u64) -> f64 {
        self.latency + bytes as f64 / self.bytes_per_second
    }

    fn of(measured: &LinkMeasurement) -> Self {
        let bytes_per_second = (measured.gbs * 1e9).max(1e6);
        Self { latency: measured.latency_us.max(0.0) * 1e-6, bytes_per_second }
    }
}

/// What a device reached when it was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Operations a second.
    pub flops: f64,
    /// Bytes a second, read plus written.
    pub bytes: f64,
    /// What an instruction costs beside its work, in a row of many.
    pub launch: f64,
    /// What it costs to wait for the device after one.
    pub wait: f64,
    /// Results that must be under way at once for all of this.
    pub lanes: f64,
    /// From the host.
    pub to_device: Link,
    /// To the host.
    pub to_host: Link,
}

impl Rates {
    /// From what was measured of a device.
    pub fn of(device: &dyn Device, measured: &Measurement) -> Self {
        let units = device.capabilities().compute_units.max(1);
        // The profile holds one number of threads, arithmetic goes with it. One thread may well
        // have most of the memory's bandwidth.
        let threads = match measured.compute_units {
            Some(then) if then > 0 && device.as_cpu().is_some() => units as f64 / then as f64,
            _ => 1.0,
        };
        // A card hides the latency of its memory behind this many results on each unit.
        let width = if device.info().kind == DeviceKind::Gpu { 256 } else { 1 };
        let launch = measured.enqueue_us.unwrap_or(measured.launch_us) * 1e-6;
        Self {
            flops: (measured.fp32_gflops * 1e9 * threads).max(1e6),
            bytes: (measured.memory_gbs * 1e9).max(1e6),
            launch,
            wait: if device.as_cpu().is_some() {
                0.0
            } else {
                (measured.launch_us * 1e-6 - launch).max(0.0)
            },
            lanes: (units * width) as f64,
            to_device: Link::of(&measured.host_to_device),
            to_host: Link::of(&measured.device_to_host),
        }
    }

    /// The least time that the work can take.
    pub fn roofline(&self, work: &Work) -> f64 {
        let busy = (work.parallelism.max(1) as f64 / self.lanes).min(1.0);
        let arithmetic = work.flops as f64 / self.flops;
        arithmetic.max(work.bytes as f64 / self.bytes) / busy
    }
}

/// What is known of a device.
#[derive(Debug)]
pub struct DeviceCosts {
    /// What it reached.
    pub rates: Rates,
    /// What instructions took.
    pub database: Database,
    /// Shares of the roofline that were reached, by class.
    efficiency: HashMap<Class, f64>,
}

impl DeviceCosts {
    /// From what was measured.
    pub fn new(rates: Rates, database: Database) -> Self {
        let mut costs = Self { rates, database, efficiency: HashMap::new() };
        costs.learn();
        costs
    }

    /// Takes the efficiency of each class from what was measured: the median.
    pub fn learn(&mut self) {
        let mut shares: HashMap<Class, Vec<f64>> = HashMap::new();
        for entry in self.database.entries() {
            let least = self.rates.roofline(&entry.work);
            let taken = entry.seconds - self.rates.launch;
            // What is as short as its launch says nothing of the work in it.
            if least > 0.0 && taken > self.rates.launch {
                shares.entry(entry.class).or_default().push((least / taken).clamp(1e-5, 1.0));
            }
        }
        let middle = |mut shares: Vec<f64>| {
            shares.sort_by(f64::total_cmp);
            shares[shares.len() / 2]
        };
        self.efficiency = shares.into_iter().map(|(class, list)| (class, middle(list))).collect();
    }

    /// The share of the roofline that instructions of a class reach.
    pub fn efficiency(&self, class: Class) -> f64 {
        self.efficiency.get(&class).copied().unwrap_or_else(|| class.usual_efficiency())
    }

    /// How long an instruction that was never measured takes.
    pub fn estimate(&self, class: Class, work: &Work) -> f64 {
        self.rates.launch + self.rates.roofline(work) / self.efficiency(class)
    }

    /// How long an instruction takes.
    pub fn predict(&self, signature: &str, class: Class, work: &Work) -> f64 {
        match self.database.get(signature) {
            Some(Entry { seconds, .. }) => *seconds,
            None => self.estimate(class, work),
        }
    }
}

/// What is known of the devices of a session.
#[derive(Debug)]
pub struct CostModel {
    sides: [Option<DeviceCosts>; 2],
}

impl CostModel {
    /// Of the CPU, and of the OpenCL device if there is one.
    pub fn new(sides: [Option<DeviceCosts>; 2]) -> Self {
        Self { sides }
    }

    /// What is known of a device.
    pub fn side(&self, side: Side) -> Option<&DeviceCosts> {
        self.sides[side.index()].as_ref()
    }

    /// What is known of a device, to add to it.
    pub fn side_mut(&mut self, side: Side) -> Option<&mut DeviceCosts> {
        self.sides[side.index()].as_mut()
    }

    /// The device that an instruction's time belongs to: a copy's is always the OpenCL device's.
    pub fn owner(step: &Step, side: Side) -> Side {
        if matches!(step, Step::Transfer { .. }) { Side::Gpu } else { side }
    }

    /// How long an instruction of a plan takes; nothing where its device is not known.
    pub fn predict(&self, slots: &[Slot], graph: &Graph, instruction: &Instruction) -> Option<f64> {
        let costs = self.side(Self::owner(&instruction.step, instruction.side))?;
        let work = work_of(instruction);
        let name = signature(slots, graph, instruction);
        Some(match &instruction.step {
            Step::Transfer { .. } if costs.database.get(&name).is_none() => {
                self.copy_seconds(instruction.side, work.bytes / 2)
            }
            step => costs.predict(&name, class_of(step), &work),
        })
    }

    /// How long it takes to copy so many bytes to a side.
    pub fn copy_seconds(&self, to: Side, bytes: u64) -> f64 {
        let Some(device) = self.side(Side::Gpu) else { return 0.0 };
        match to {
            Side::Cpu => device.rates.to_host.seconds(bytes),
            Side::Gpu => device.rates.to_device.seconds(bytes),
        }
    }

    /// Remembers how long instructions took, in the files too.
    ///
    /// # Errors
    /// If a file cannot be written; what this process knows is changed all the same.
    pub fn remember(
        &mut self,
        measured: impl IntoIterator<Item = (Side, String, Entry)>,
    ) -> crate::Result<()> {
        for (side, signature, entry) in measured {
            if let Some(costs) = self.side_mut(side) {
                costs.database.insert(signature, entry);
            }
        }
        let mut saved = Ok(());
        for costs in self.sides.iter_mut().flatten() {
            costs.learn();
            saved = saved.and(costs.database.save());
        }
        saved
    }
}
