//! A system file, and the same with a value of each field.

/// Two tasks, with everything that a scheduler of `analyze` takes.
pub(crate) const BASE: &str = "[[task]]\nname = \"a\"\npriority = 1\nperiod = \"10 ms\"\nwcet = \"2 ms\"\nlines = 1000\nserver = \"S1\"\n\
    copy_server = \"S2\"\n\n\
    [[task]]\nname = \"b\"\npriority = 2\nperiod = \"40 ms\"\nwcet = \"2 ms\"\nlines = 1000\nserver = \"S2\"\n\n\
    [memory]\nranks = 4\ndensity = 1\nretention = \"64 ms\"\n\n\
    [[color]]\nname = \"c1\"\nranks = \"0-1\"\nphase = \"32 ms\"\n\n[[color]]\nname = \"c2\"\nranks = \"2-3\"\n\n\
    [[server]]\nname = \"S1\"\ncolor = \"c1\"\nperiod = \"4 ms\"\nbudget = \"2 ms\"\n\n\
    [[server]]\nname = \"S2\"\ncolor = \"c2\"\nperiod = \"4 ms\"\nbudget = \"2 ms\"\n";

/// A value of each field: a line for the top of the file or for its first task, or a replacement.
pub(crate) fn with(field: &str) -> String {
    let cores = "[{ regulator = { period = \"1 ms\", lines = 10 } }]";
    let top = |line: &str| format!("{line}\n{BASE}");
    let task = |line: &str| BASE.replacen("name = \"a\"\n", &format!("name = \"a\"\n{line}\n"), 1);
    let changed = |from: &str, to: &str| {
        assert!(BASE.contains(from), "{from}");
        BASE.replacen(from, to, 1)
    };
    match field {
        "schema" => top("schema = 1"),
        "description" => top("description = \"two tasks\""),
        "platform" => top("platform = \"nehalem-w3530\""),
        "granule" => top("granule = \"64K\""),
        "simulation" => top("simulation = { device = \"ddr4-2400\", duration = \"1 ms\", cores = { mhz = 3000 } }"),
        "group" => format!("{BASE}\n[[group]]\nname = \"g\"\ntasks = [\"b\"]\nmb_per_s = 100\n"),
        "refresh" => {
            top("refresh = { mode = \"auto\", interval = \"7.8 us\", duration = \"350 ns\", reopen = \"28 ns\" }")
        }
        "regulator" => top("regulator = { period = \"1 ms\", lines = 800 }"),
        "banks" => top(&format!(
            "banks = {{ request_delay = \"40 ns\", private_banks = true, requests_at_once_max = 1, core = {cores} }}"
        )),
        "shared_banks" => top(&format!(
            "shared_banks = {{ request_delay = \"40 ns\", hit = \"10 ns\", conflict = \"60 ns\", overtaking_each_request = 16, \
             requests_at_once_max = 1, sharer = {cores} }}"
        )),
        "parallel_banks" => {
            top("parallel_banks = { read_delay = \"40 ns\", write_delay = \"30 ns\", turn = \"20 ns\", \
             write_entries = 32, drain_at = 26, drain_to = 6, requests_at_once_max = 10, private_banks = true, \
             write_back = true, core = [{ requests_at_once_max = 8 }] }")
        }
        "memory" => changed("density = 1", "density = 8"),
        "cyclic" => top("cyclic = { slice_cost = \"2 us\" }"),
        "color" => changed("phase = \"32 ms\"", "phase = \"30 ms\""),
        "server" => changed("budget = \"2 ms\"", "budget = \"1 ms\""),
        "task.name" => changed("name = \"a\"", "name = \"x\""),
        "task.command" => task("command = [\"true\"]"),
        "task.program" => task("program = \"refresh/lms\""),
        "task.workload" => task("workload = { kind = \"stream\", size = \"3 MiB\" }"),
        "task.references" => task("references = 10"),
        "task.uncounted" => task("uncounted = 1"),
        "task.barrier" => task("barrier = { group = 1, every = 100 }"),
        "task.copy_of" => BASE.replace("name = \"b\"\n", "name = \"b\"\ncopy_of = \"a\"\n"),
        "task.late" => task("late = \"give-up\""),
        "task.period" => changed("period = \"10 ms\"", "period = \"8 ms\""),
        "task.wcet" => changed("wcet = \"2 ms\"", "wcet = \"1 ms\""),
        "task.deadline" => task("deadline = \"9 ms\""),
        "task.phase" => task("phase = \"1 ms\""),
        "task.jitter" => task("jitter = \"1 ms\""),
        "task.blocking" => task("blocking = \"1 ms\""),
        "task.priority" => changed("priority = 1", "priority = 3"),
        "task.lines" => changed("lines = 1000", "lines = 2000"),
        "task.cores" => task("cores = \"0\""),
        "task.banks" => task("banks = \"0-3\""),
        "task.sets" => task("sets = \"0\""),
        "task.node" => task("node = \"0\""),
        "task.ways" => task("ways = \"0-3\""),
        "task.allocator" => task("allocator = \"buddy\""),
        "task.huge_pages" => task("huge_pages = true"),
        "task.mode" => task("mode = \"soft\""),
        "task.shared" => task("shared = true"),
        "task.bandwidth" => task("bandwidth = { budget = \"1 MiB\", period = \"1 ms\" }"),
        "task.refresh" => task("refresh = \"0\""),
        "task.ranks" => task("ranks = 2"),
        "task.copy" => task("copy = \"100 us\""),
        "task.globals" => task("copy = \"1 ms\"\nglobals = \"16 KiB\""),
        "task.server" => changed("server = \"S2\"\n\n[memory]", "server = \"S1\"\n\n[memory]"),
        "task.copy_server" => BASE.to_owned(),
        other => panic!("{other} has no value here"),
    }
}
