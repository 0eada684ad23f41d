//! The Linux distribution, which determines package names.

use std::path::Path;

use serde::Serialize;

use super::system_files::{printable, read_text};

/// A distribution as it describes itself in `os-release`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Distribution {
    /// Short name, such as "debian"; the operating system's where there is no `os-release`.
    pub id: String,
    /// Distributions it derives from, nearest first.
    pub like: Vec<String>,
    /// The name for people, such as "Debian GNU/Linux 12 (bookworm)".
    pub name: String,
}

/// Distributions that share a package manager and package names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Debian and derivatives other than Ubuntu's.
    Debian,
    /// Ubuntu and derivatives (Mint, Pop!_OS): Debian's packages but other NVIDIA tools.
    Ubuntu,
    /// Fedora, RHEL and derivatives.
    Fedora,
    /// Arch and derivatives (Manjaro, EndeavourOS).
    Arch,
    /// openSUSE and SLE.
    Suse,
    /// Alpine and postmarketOS.
    Alpine,
    /// Gentoo and derivatives.
    Gentoo,
    /// Anything else.
    Unknown,
}

impl Distribution {
    /// Reads an `os-release` text; what it leaves out becomes "unknown".
    pub fn parse(os_release: &str) -> Self {
        let id =
            field(os_release, "ID").map_or_else(|| "unknown".to_owned(), |id| id.to_lowercase());
        let like = field(os_release, "ID_LIKE").unwrap_or_default().to_lowercase();
        let name = field(os_release, "PRETTY_NAME").or_else(|| field(os_release, "NAME"));
        Self {
            like: like.split_whitespace().map(str::to_owned).collect(),
            name: name.unwrap_or_else(|| id.clone()),
            id,
        }
    }

    /// The family whose packages this distribution uses.
    pub fn family(&self) -> Family {
        let families = std::iter::once(&self.id).chain(&self.like).map(|id| family_of(id));
        families.into_iter().find(|family| *family != Family::Unknown).unwrap_or(Family::Unknown)
    }
}

/// Describes the running system.
pub fn detect_distribution() -> Distribution {
    let files = ["/etc/os-release", "/usr/lib/os-release"];
    match files.iter().find_map(|file| read_text(Path::new(file))) {
        Some(text) => Distribution::parse(&text),
        None => {
            let system = std::env::consts::OS.to_owned();
            Distribution { id: system.clone(), like: Vec::new(), name: system }
        }
    }
}

fn family_of(id: &str) -> Family {
    match id {
        "debian" | "raspbian" => Family::Debian,
        "ubuntu" => Family::Ubuntu,
        "fedora" | "rhel" | "centos" => Family::Fedora,
        "arch" | "archlinux" => Family::Arch,
        "suse" | "opensuse" | "sles" => Family::Suse,
        _ if id.starts_with("opensuse-") => Family::Suse,
        "alpine" => Family::Alpine,
        "gentoo" => Family::Gentoo,
        _ => Family::Unknown,
    }
}

/// The value of `KEY=value`, without quotes; the last of several counts, as in a shell.
fn field(os_release: &str, key: &str) -> Option<String> {
    let mut assignments = os_release.lines().filter_map(|line| line.trim().split_once('='));
    let (_, value) = assignments.rfind(|(name, _)| *name == key)?;
    let value = value.trim();
    let quoted = ['"', '\'']
        .iter()
        .find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote))
        .unwrap_or(value);
    Some(printable(&quoted.replace('\\', ""))).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_distributions_and_derivatives() {
        let cases = [
            ("PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\n", Family::Debian),
            ("NAME=\"Ubuntu\"\nID=ubuntu\nID_LIKE=debian\n", Family::Ubuntu),
            ("NAME=\"Linux Mint\"\nID=linuxmint\nID_LIKE=\"ubuntu debian\"\n", Family::Ubuntu),
            ("NAME=\"Fedora Linux\"\nVERSION_ID=41\nID=fedora\n", Family::Fedora),
            ("NAME='Rocky Linux'\nID='rocky'\nID_LIKE='rhel centos fedora'\n", Family::Fedora),
            ("NAME=\"Arch Linux\"\nID=arch\n", Family::Arch),
            ("NAME=EndeavourOS\nID=\"endeavouros\"\nID_LIKE=\"arch\"\n", Family::Arch),
            ("ID=\"opensuse-tumbleweed\"\nID_LIKE=\"opensuse suse\"\n", Family::Suse),
            ("ID=\"opensuse-leap\"\n", Family::Suse),
            ("NAME=\"Alpine Linux\"\nID=alpine\n", Family::Alpine),
            ("NAME=Gentoo\nID=gentoo\n", Family::Gentoo),
            ("NAME=NixOS\nID=nixos\n", Family::Unknown),
        ];
        for (text, family) in cases {
            assert_eq!(Distribution::parse(text).family(), family, "{text}");
        }
    }

    #[test]
    fn fields_are_unquoted_and_the_last_wins() {
        let text = "# comment\nID=old\n ID = spaced\nID=\"Debian\"\nID_LIKE=\"a  b\"\nNAME=\"Say \\\"hi\\\"\"\n";
        let distribution = Distribution::parse(text);
        assert_eq!(distribution.id, "debian");
        assert_eq!(distribution.like, ["a", "b"]);
        assert_eq!(distribution.name, "Say \"hi\"");
    }

    #[test]
    fn hostile_texts_stay_unknown() {
        for text in ["", "=", "ID", "ID=", "ID=\"\"", "\0\0=\u{1}", "ID=\u{1b}\0", "PRETTY_NAME=\""]
        {
            let distribution = Distribution::parse(text);
            assert_eq!(
                (distribution.id.as_str(), distribution.family()),
                ("unknown", Family::Unknown)
            );
        }
        let name = Distribution::parse("NAME=\"\u{1b}[2Jboom\"").name;
        assert!(!name.contains('\u{1b}'), "{name:?}");
    }

    #[test]
    fn this_system_has_a_name() {
        assert!(!detect_distribution().name.is_empty());
    }
}
