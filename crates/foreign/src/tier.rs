//! CPU time that one tier takes for a request, measured on that tier alone.
//!
//! As many clients ask as in the study, of a deployment that nothing else uses. What the tier then
//! takes for a request says by which share a change makes it faster, and nothing about throughput.

use crate::wordpress::{Tier, Wordpress};
use cavy_groups::usage::Meter;
use std::fs;
use std::path::{Path, PathBuf};

/// A control group for the processes of one tier, so that their CPU time can be counted.
#[derive(Debug)]
pub struct Alone {
    dir: PathBuf,
    meter: Meter,
}

impl Alone {
    /// Of `tier` of an application that runs.
    ///
    /// # Errors
    /// A sentence, when control groups cannot be made or counted.
    pub fn of(application: &Wordpress, tier: Tier, unified: &Path) -> Result<Alone, String> {
        let name = format!("cavy-tier-{}-{}", std::process::id(), tier.name());
        let dir = unified.join(name);
        fs::create_dir_all(&dir)
            .map_err(|error| format!("cannot make control group {}: {error}", dir.display()))?;
        for pid in application.processes(tier) {
            // A worker that ended meanwhile is no loss.
            let _ = fs::write(dir.join("cgroup.procs"), pid.to_string());
        }
        let meter = Meter::open(&dir)
            .map_err(|error| format!("CPU time of {} cannot be counted: {error}", tier.name()))?;
        Ok(Alone { dir, meter })
    }

    /// CPU microseconds for a request, over `requests` of them, so many `at_once`.
    ///
    /// # Errors
    /// A sentence, when a request is not answered.
    pub fn us_per_request(
        &mut self,
        application: &Wordpress,
        path: &str,
        requests: u32,
        at_once: u32,
    ) -> Result<f64, String> {
        let failed = |error| format!("CPU time cannot be read: {error}");
        let before = self.meter.read().map_err(failed)?;
        application.get_all(path, requests, at_once)?;
        let after = self.meter.read().map_err(failed)?;
        Ok(after.saturating_sub(before).as_us() / f64::from(requests))
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        let root = self.dir.parent().unwrap_or(&self.dir).to_path_buf();
        for _ in 0..50 {
            let left = fs::read_to_string(self.dir.join("cgroup.procs")).unwrap_or_default();
            for pid in left.lines() {
                let _ = fs::write(root.join("cgroup.procs"), pid);
            }
            if fs::remove_dir(&self.dir).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}
