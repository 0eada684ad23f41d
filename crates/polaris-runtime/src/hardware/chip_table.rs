//! AMD's chips: the names that drivers, compilers and shops give to each.

/// One chip. Names are lower-case words; a space matches any separator or none, so
/// "navi 21" stands for "Navi 21", "navi_21" and "navi21" alike.
pub(super) struct AmdChip {
    /// What this engine calls the chip.
    pub key: &'static str,
    /// The compiler's target.
    pub architecture: &'static str,
    /// Code names of AMD and of Mesa.
    pub code_names: &'static [&'static str],
    /// Cards that carry this chip and no other, as far as the name can tell.
    pub cards: &'static [&'static str],
}

const fn chip(
    key: &'static str,
    architecture: &'static str,
    code_names: &'static [&'static str],
    cards: &'static [&'static str],
) -> AmdChip {
    AmdChip { key, architecture, code_names, cards }
}

/// "vega10" and its like carry no space: "Radeon Vega 10 Graphics" is the graphics
/// part of a Raven APU, not the chip Vega 10. Polaris 20 and 30 are Polaris 10 on a
/// better process with the same units and the same PCI id, hence one key.
#[rustfmt::skip]
pub(super) const AMD_CHIPS: &[AmdChip] = &[
    chip("polaris10", "gfx803", &["ellesmere", "polaris 10", "polaris 20", "polaris 30"],
        &["rx 470", "rx 480", "rx 570", "rx 570x", "rx 580", "rx 580x", "rx 590", "wx 7100", "wx 5100"]),
    chip("polaris11", "gfx803", &["baffin", "polaris 11", "polaris 21"],
        &["rx 460", "rx 560", "rx 560x", "rx 560d", "wx 4100", "wx 4130", "wx 4150", "wx 4170"]),
    chip("polaris12", "gfx803", &["lexa", "polaris 12", "polaris 23"],
        &["rx 540", "rx 540x", "rx 550", "rx 550x", "rx 640", "wx 2100", "wx 3100", "wx 3200"]),
    chip("vegam", "gfx803", &["vegam", "polaris 22"], &["rx vega m"]),
    chip("fiji", "gfx803", &["fiji"], &["r9 fury", "r9 nano", "pro duo"]),
    chip("tonga", "gfx802", &["tonga", "amethyst"], &["r9 285", "r9 380", "r9 380x", "w7100"]),
    chip("iceland", "gfx802", &["iceland", "topaz"], &[]),
    chip("carrizo", "gfx801", &["carrizo", "bristol"], &[]),
    chip("stoney", "gfx810", &["stoney"], &[]),
    chip("tahiti", "gfx600", &["tahiti"], &["hd 7950", "hd 7970", "r9 280", "r9 280x"]),
    chip("pitcairn", "gfx601", &["pitcairn", "curacao"], &["hd 7850", "hd 7870", "r9 270", "r9 270x"]),
    chip("capeverde", "gfx601", &["verde", "capeverde"], &["hd 7750", "hd 7770", "r7 250x"]),
    chip("oland", "gfx602", &["oland"], &[]),
    chip("hainan", "gfx602", &["hainan"], &[]),
    chip("kaveri", "gfx700", &["kaveri", "spectre"], &[]),
    chip("hawaii", "gfx701", &["hawaii", "grenada"],
        &["r9 290", "r9 290x", "r9 295x2", "r9 390", "r9 390x", "w8100", "w9100"]),
    chip("bonaire", "gfx704", &["bonaire"], &["hd 7790", "r7 260x", "r7 360"]),
    chip("vega10", "gfx900", &["vega10", "greenland"],
        &["rx vega", "vega 56", "vega 64", "vega frontier", "mi25", "wx 9100", "wx 8200"]),
    chip("raven", "gfx902", &["raven", "picasso"], &[]),
    chip("vega12", "gfx904", &["vega12"], &[]),
    chip("vega20", "gfx906", &["vega20"], &["radeon vii", "pro vii", "mi50", "mi60"]),
    chip("arcturus", "gfx908", &["arcturus"], &["mi100"]),
    chip("raven2", "gfx909", &["raven2", "dali"], &[]),
    chip("aldebaran", "gfx90a", &["aldebaran"], &["mi210", "mi250", "mi250x"]),
    chip("renoir", "gfx90c", &["renoir", "cezanne", "lucienne", "barcelo"], &[]),
    chip("navi10", "gfx1010", &["navi 10"], &["rx 5600", "rx 5700", "w5700"]),
    chip("navi12", "gfx1011", &["navi 12"], &["v520"]),
    chip("navi14", "gfx1012", &["navi 14"], &["rx 5300", "rx 5500", "w5500"]),
    chip("navi21", "gfx1030", &["navi 21", "sienna cichlid"], &["rx 6800", "rx 6900", "rx 6950", "w6800"]),
    chip("navi22", "gfx1031", &["navi 22", "navy flounder"], &["rx 6700", "rx 6750"]),
    chip("navi23", "gfx1032", &["navi 23", "dimgrey cavefish"], &["rx 6600", "rx 6650", "w6600"]),
    chip("vangogh", "gfx1033", &["vangogh"], &[]),
    chip("navi24", "gfx1034", &["navi 24", "beige goby"], &["rx 6400", "rx 6500", "w6400"]),
    chip("rembrandt", "gfx1035", &["rembrandt", "yellow carp"], &["radeon 660m", "radeon 680m"]),
    chip("raphael", "gfx1036", &["raphael", "mendocino"], &[]),
    chip("navi31", "gfx1100", &["navi 31"], &["rx 7900", "w7800", "w7900"]),
    chip("navi32", "gfx1101", &["navi 32"], &["rx 7700", "rx 7800", "w7700"]),
    chip("navi33", "gfx1102", &["navi 33"], &["rx 7600", "w7500", "w7600"]),
    chip("phoenix", "gfx1103", &["phoenix"], &["radeon 740m", "radeon 760m", "radeon 780m"]),
    chip("navi44", "gfx1200", &["navi 44"], &["rx 9060"]),
    chip("navi48", "gfx1201", &["navi 48"], &["rx 9070"]),
];
