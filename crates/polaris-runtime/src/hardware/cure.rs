//! Installation instructions for the OpenCL driver of a card.

use super::distribution::{Distribution, Family};
use super::pci::{PciGpu, Vendor};

/// The command that brings OpenCL for `gpu` on `distribution`, in a few sentences; a
/// kernel driver that stands in the way comes first.
pub fn opencl_cure(gpu: &PciGpu, distribution: &Distribution) -> String {
    let family = distribution.family();
    let install = match gpu.vendor {
        Vendor::Amd => amd_install(family),
        Vendor::Nvidia => nvidia_install(family, gpu.kernel_driver.as_deref()),
        Vendor::Intel => intel_install(family),
        Vendor::Other => {
            "Install the OpenCL driver (ICD) of its maker and an OpenCL ICD loader.".to_owned()
        }
    };
    let sentences = [driver_trouble(gpu), Some(install), hidden_card(gpu)];
    sentences.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// How a machine without a GPU gets an OpenCL device to try things on.
pub fn cpu_opencl_hint(distribution: &Distribution) -> String {
    let command = match distribution.family() {
        // Debian's PoCL does not pull in the loader that programs open.
        Family::Debian | Family::Ubuntu => "sudo apt install pocl-opencl-icd ocl-icd-libopencl1",
        Family::Fedora => "sudo dnf install pocl",
        Family::Arch => "sudo pacman -S pocl ocl-icd",
        Family::Suse => "sudo zypper install pocl",
        Family::Gentoo => "sudo emerge dev-libs/pocl",
        Family::Alpine | Family::Unknown => {
            return "No GPU is needed: Polaris runs on the CPU as it is. To try its OpenCL kernels \
                    on the CPU, install PoCL if your system packages it."
                .to_owned();
        }
    };
    format!(
        "No GPU is needed: Polaris runs on the CPU as it is. To try its OpenCL kernels on the \
         CPU, install PoCL with `{command}`."
    )
}

/// The sentence about a kernel driver that keeps OpenCL from the card, if one does.
fn driver_trouble(gpu: &PciGpu) -> Option<String> {
    let name = &gpu.name;
    let wanted = match gpu.vendor {
        Vendor::Amd => "amdgpu",
        Vendor::Intel => "i915",
        // The cure for NVIDIA brings the kernel driver along.
        Vendor::Nvidia => "nvidia",
        Vendor::Other => "its own driver",
    };
    match (gpu.kernel_driver.as_deref(), gpu.vendor) {
        (Some(driver @ ("vfio-pci" | "pci-stub")), _) => Some(format!(
            "{name} is reserved for virtual machines by the kernel driver {driver}: give it back \
             to {wanted} first."
        )),
        (None, Vendor::Amd) => Some(format!(
            "No kernel driver is bound to {name}: load amdgpu first (`sudo modprobe amdgpu`, and \
             `sudo dmesg` tells why it refuses)."
        )),
        (None, Vendor::Intel) => Some(format!(
            "No kernel driver is bound to {name}: load it first (`sudo modprobe i915`, or xe for \
             recent cards)."
        )),
        (Some("amdgpu" | "radeon"), Vendor::Amd) => None,
        (Some(driver), Vendor::Amd) => Some(format!(
            "{name} is bound to the kernel driver {driver}: Mesa needs amdgpu (radeon for very \
             old cards)."
        )),
        _ => None,
    }
}

/// What hides a card, without any message, even where the right package is installed.
fn hidden_card(gpu: &PciGpu) -> Option<String> {
    let group = "Your user must be able to open /dev/dri/renderD* (`sudo usermod -aG render $USER`, \
                 then log in again)";
    match (gpu.vendor, gpu.kernel_driver.as_deref()?) {
        // Mesa offers cards only where its builder or this variable allows it.
        (Vendor::Amd, "amdgpu" | "radeon") => Some(format!(
            "{group}; if the card still does not appear, set RUSTICL_ENABLE=radeonsi in the \
             environment."
        )),
        (Vendor::Nvidia, "nvidia") => Some(
            "In a container, pass the driver's compute part in \
             (NVIDIA_DRIVER_CAPABILITIES=compute,utility) and let \
             /etc/OpenCL/vendors/nvidia.icd name libnvidia-opencl.so.1."
                .to_owned(),
        ),
        (Vendor::Intel, "i915" | "xe") => Some(format!("{group}.")),
        _ => None,
    }
}

fn amd_install(family: Family) -> String {
    let command = match family {
        Family::Debian | Family::Ubuntu => "sudo apt install mesa-opencl-icd",
        Family::Fedora => "sudo dnf install mesa-libOpenCL",
        Family::Arch => "sudo pacman -S opencl-mesa ocl-icd",
        Family::Suse => "sudo zypper install Mesa-libRusticlOpenCL libOpenCL1",
        Family::Alpine => "doas apk add mesa-rusticl opencl-icd-loader",
        Family::Gentoo => {
            return "Set the USE flag opencl for media-libs/mesa, then rebuild it with \
                    `sudo emerge media-libs/mesa`."
                .to_owned();
        }
        Family::Unknown => {
            return "Install the package with Mesa's OpenCL driver (rusticl) and an OpenCL ICD loader."
                .to_owned();
        }
    };
    format!("Install Mesa's OpenCL driver with `{command}`.")
}

fn nvidia_install(family: Family, kernel_driver: Option<&str>) -> String {
    match family {
        Family::Debian if kernel_driver == Some("nvidia") => {
            "Install the OpenCL part of NVIDIA's own driver with `sudo apt install nvidia-opencl-icd`."
                .to_owned()
        }
        Family::Debian => "Install NVIDIA's own driver with its OpenCL part from the non-free section with \
                           `sudo apt install nvidia-driver nvidia-opencl-icd`."
            .to_owned(),
        Family::Ubuntu if kernel_driver == Some("nvidia") => {
            "NVIDIA's kernel driver runs but its OpenCL part is missing: install the \
             libnvidia-compute package of the version that `cat /proc/driver/nvidia/version` \
             shows, for example `sudo apt install libnvidia-compute-550`."
                .to_owned()
        }
        Family::Ubuntu => "Install NVIDIA's own driver, OpenCL included, with \
                           `sudo ubuntu-drivers install`, then restart."
            .to_owned(),
        Family::Fedora => "Enable RPM Fusion (nonfree), then install NVIDIA's own driver and its \
                           OpenCL part with `sudo dnf install akmod-nvidia xorg-x11-drv-nvidia-cuda`."
            .to_owned(),
        Family::Arch => "Install the OpenCL part of NVIDIA's own driver with \
                         `sudo pacman -S opencl-nvidia ocl-icd`."
            .to_owned(),
        Family::Suse => "Add NVIDIA's repository, then install its driver's OpenCL part with \
                         `sudo zypper install nvidia-compute-G06`."
            .to_owned(),
        Family::Gentoo => "Install NVIDIA's own driver, OpenCL included, with \
                           `sudo emerge x11-drivers/nvidia-drivers`."
            .to_owned(),
        Family::Alpine => "NVIDIA's own driver, which brings OpenCL, does not run on Alpine: use a \
                           distribution with glibc for this card."
            .to_owned(),
        Family::Unknown => "Install NVIDIA's own driver with its OpenCL part (libnvidia-opencl) and \
                            an OpenCL ICD loader."
            .to_owned(),
    }
}

fn intel_install(family: Family) -> String {
    let command = match family {
        Family::Debian | Family::Ubuntu => "sudo apt install intel-opencl-icd",
        Family::Fedora => "sudo dnf install intel-compute-runtime",
        Family::Arch => "sudo pacman -S intel-compute-runtime ocl-icd",
        Family::Suse => "sudo zypper install intel-opencl",
        Family::Gentoo => "sudo emerge dev-libs/intel-compute-runtime",
        Family::Alpine | Family::Unknown => {
            return "Install the package with Intel's compute runtime (OpenCL) and an OpenCL ICD loader."
                .to_owned();
        }
    };
    format!("Install Intel's compute runtime with `{command}`.")
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDS: [&str; 8] =
        ["debian", "ubuntu", "fedora", "arch", "opensuse-leap", "alpine", "gentoo", "plan9"];

    fn distribution(id: &str) -> Distribution {
        Distribution { id: id.to_owned(), like: Vec::new(), name: id.to_owned() }
    }

    fn gpu(vendor: Vendor, driver: Option<&str>) -> PciGpu {
        PciGpu {
            address: "0000:01:00.0".to_owned(),
            vendor_id: 0x1002,
            device_id: 0x67df,
            vendor,
            name: "Card X".to_owned(),
            kernel_driver: driver.map(str::to_owned),
            vram_bytes: None,
            vram_used_bytes: None,
        }
    }

    fn cure(vendor: Vendor, driver: Option<&str>, id: &str) -> String {
        opencl_cure(&gpu(vendor, driver), &distribution(id))
    }

    #[test]
    fn each_vendor_has_its_command_on_each_family() {
        let cases = [
            (Vendor::Amd, "amdgpu", "debian", "`sudo apt install mesa-opencl-icd`"),
            (Vendor::Amd, "amdgpu", "ubuntu", "`sudo apt install mesa-opencl-icd`"),
            (Vendor::Amd, "amdgpu", "fedora", "`sudo dnf install mesa-libOpenCL`"),
            (Vendor::Amd, "amdgpu", "arch", "`sudo pacman -S opencl-mesa ocl-icd`"),
            (Vendor::Amd, "amdgpu", "opensuse-leap", "Mesa-libRusticlOpenCL"),
            (Vendor::Amd, "amdgpu", "plan9", "rusticl"),
            (Vendor::Nvidia, "nouveau", "debian", "nvidia-opencl-icd"),
            (Vendor::Nvidia, "nouveau", "ubuntu", "`sudo ubuntu-drivers install`"),
            (Vendor::Nvidia, "nvidia", "ubuntu", "libnvidia-compute"),
            (Vendor::Nvidia, "nouveau", "fedora", "xorg-x11-drv-nvidia-cuda"),
            (Vendor::Nvidia, "nouveau", "arch", "opencl-nvidia"),
            (Vendor::Intel, "i915", "ubuntu", "`sudo apt install intel-opencl-icd`"),
            (Vendor::Intel, "xe", "arch", "intel-compute-runtime"),
            (Vendor::Other, "foo", "debian", "ICD"),
        ];
        for (vendor, driver, id, expected) in cases {
            let text = cure(vendor, Some(driver), id);
            assert!(text.contains(expected), "{text}");
        }
    }

    #[test]
    fn the_render_group_is_named_where_the_driver_is_bound() {
        let text = cure(Vendor::Amd, Some("amdgpu"), "debian");
        assert!(text.contains("/dev/dri/renderD*") && text.contains("render $USER"), "{text}");
        assert!(text.starts_with("Install"), "nothing is wrong with the driver: {text}");
        assert!(!cure(Vendor::Amd, None, "debian").contains("renderD"));
        assert!(!cure(Vendor::Nvidia, Some("nvidia"), "debian").contains("renderD"));
    }

    #[test]
    fn a_wrong_kernel_driver_comes_first() {
        assert!(cure(Vendor::Amd, None, "arch").starts_with("No kernel driver is bound to Card X"));
        for vendor in [Vendor::Amd, Vendor::Nvidia, Vendor::Intel, Vendor::Other] {
            let text = cure(vendor, Some("vfio-pci"), "arch");
            assert!(text.starts_with("Card X is reserved for virtual machines"), "{text}");
        }
        assert!(cure(Vendor::Amd, Some("fglrx"), "arch").contains("Mesa needs amdgpu"));
    }

    #[test]
    fn no_combination_is_left_without_sentences() {
        for vendor in [Vendor::Amd, Vendor::Nvidia, Vendor::Intel, Vendor::Other] {
            for driver in [None, Some(""), Some("amdgpu"), Some("vfio-pci"), Some("\0")] {
                for id in IDS {
                    let text = cure(vendor, driver, id);
                    assert!(text.ends_with('.') && !text.contains("  "), "{text}");
                }
            }
        }
    }

    #[test]
    fn the_cpu_hint_names_pocl() {
        for id in IDS {
            let text = cpu_opencl_hint(&distribution(id));
            assert!(text.contains("PoCL") && text.ends_with('.') && !text.contains("  "), "{text}");
        }
        assert!(cpu_opencl_hint(&distribution("debian")).contains("pocl-opencl-icd"));
        assert!(cpu_opencl_hint(&distribution("fedora")).contains("`sudo dnf install pocl`"));
    }
}
