//! The limits of packages: their sizes, their names, and the texts in them. Errors name the limit.

/// What a package may contain.
#[derive(Debug, Clone)]
pub struct PackageLimits {
    /// Largest `.difypkg` file, in bytes.
    pub packed_bytes_max: u64,
    /// Most bytes of all files after unpacking.
    pub unpacked_bytes_max: u64,
    /// Most files, and most folders.
    pub files_max: usize,
    /// Largest file, in bytes.
    pub file_bytes_max: u64,
    /// Longest name of a file with its folders, in bytes.
    pub path_bytes_max: usize,
    /// Most parts of a name.
    pub path_parts_max: usize,
    /// Largest YAML file that is read, in bytes.
    pub yaml_bytes_max: usize,
    /// Most YAML files that are read in all. A file that is named twice counts twice.
    pub yaml_files_max: usize,
    /// Most bytes of YAML that are read in all.
    pub yaml_bytes_all_max: usize,
    /// Most values of all YAML files after their aliases are expanded.
    pub yaml_values_all_max: usize,
    /// Most bytes of text of all YAML files after their aliases are expanded.
    pub yaml_text_bytes_all_max: usize,
    /// Most steps of comparing patterns with the names of files.
    pub pattern_steps_max: u64,
    /// Most problems that are reported.
    pub problems_max: usize,
}

impl Default for PackageLimits {
    fn default() -> Self {
        Self {
            packed_bytes_max: 50 << 20,
            unpacked_bytes_max: 200 << 20,
            files_max: 10_000,
            file_bytes_max: 50 << 20,
            path_bytes_max: 400,
            path_parts_max: 24,
            yaml_bytes_max: 1 << 20,
            yaml_files_max: 3_000,
            yaml_bytes_all_max: 16 << 20,
            yaml_values_all_max: 1_000_000,
            yaml_text_bytes_all_max: 32 << 20,
            pattern_steps_max: 50_000_000,
            problems_max: 200,
        }
    }
}
