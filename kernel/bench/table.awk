# SPDX-License-Identifier: GPL-2.0-only
#
# What bench.sh found, as a table with targets, or as JSON (form=json). Averages are means over the seeds; spread is the
# largest difference between two seeds; ratios are to the stock kernel in the same state of memory and the same workload,
# with a memory cgroup where the series has one. The last pages of a color are compared with a stock kernel's fresh memory.

/^# / { about[++abouts] = substr($0, 3); next }

# SEED STATE WORKLOAD alloc|free samples N dropped N average N minimum N median N p999 N maximum N
$4 == "alloc" || $4 == "free" {
    row = $2 " " $3
    if (!(row in seen)) { seen[row] = 1; rows[++nr_rows] = row }
    k = row " " $4
    average = $10 / 100
    sum[k] += average
    runs[k]++
    if (runs[k] == 1 || average < low[k]) low[k] = average
    if (runs[k] == 1 || average > high[k]) high[k] = average
    if (runs[k] == 1 || $12 < least[k]) least[k] = $12
    if ($18 > most[k]) most[k] = $18
    dropped[k] += $8
    next
}

# SEED STATE WORKLOAD failed N held N overhead N
$4 == "failed" { failed[$2 " " $3] += $5; next }
$3 == "left" { left[$2] += $4; next }

function mean(k) { return runs[k] ? sum[k] / runs[k] : 0 }

function spread(k) { return high[k] - low[k] }

# The stock kernel's row to compare with.
function stock_of(row,    parts) {
    split(row, parts, " ")
    return (parts[1] ~ /^(grouped|group|beside|reserved)-/ ? "grouped-" : "plain-") (parts[1] ~ /-fragmented$/ ? "fragmented" : "fresh") " " parts[2]
}

function both(row) { return mean(row " alloc") + mean(row " free") }

# The exit status: 1 when a target is not met, or a measurement is missing.
function unmet(    i) {
    if (missing) return 1
    for (i = 1; i <= nr_exacts; i++)
        if (!exact[i]) return 1
    for (i = 1; i <= nr_targets; i++)
        if (!met[i]) return 1
    return 0
}

function ratio(a, b) { return b ? a / b : 0 }

# The largest ratio of any row whose state begins with a name: of allocations, or of allocation and free together.
function worst(prefix, pair,    i, r, top) {
    top = 0
    for (i = 1; i <= nr_rows; i++) {
        if (index(rows[i], prefix "-") != 1 || rows[i] ~ / fail$/) continue
        r = pair ? ratio(both(rows[i]), both(stock_of(rows[i]))) : ratio(mean(rows[i] " alloc"), mean(stock_of(rows[i]) " alloc"))
        if (r > top) top = r
    }
    return top
}

function maximum(prefix,    i, k, top) {
    for (i = 1; i <= nr_rows; i++) {
        k = rows[i] " alloc"
        if (index(rows[i], prefix "-") == 1 && rows[i] !~ / fail$/ && most[k] > top) top = most[k]
    }
    return top
}

function target(text, found, limit) {
    targets[++nr_targets] = text
    founds[nr_targets] = found
    limits[nr_targets] = limit
    met[nr_targets] = found > 0 && found <= limit
}

# Where the colors are used up, each allocation fails, and no page of them is left.
function fails_exactly(state,    row, k) {
    row = state " fail"
    k = row " alloc"
    exacts[++nr_exacts] = state
    exact[nr_exacts] = runs[k] && failed[row] == 100 * runs[k] && state in left && left[state] == 0
}

# Whether there are all measurements of a kind.
function complete(prefix, scarce,    states, uses, s, u, found) {
    split("fresh fragmented" (scarce ? " scarce" : ""), states, " ")
    split("burst churn", uses, " ")
    found = 1
    for (s in states)
        for (u in uses)
            if (!runs[prefix "-" states[s] " " uses[u] " alloc"] || !runs[prefix "-" states[s] " " uses[u] " free"]) found = 0
    return found
}

function judge() {
    missing = !(complete("plain") && complete("grouped") && complete("off") && complete("uncolored") && complete("beside") && complete("reserved") && complete("group") && complete("four", 1) && complete("single", 1) && complete("palloc", 1))
    target("off, allocation and free", worst("off", 1), 1.01)
    target("uncolored, allocation and free", worst("uncolored", 1), 1.03)
    target("uncolored beside a group, allocation and free", worst("beside", 1), 1.03)
    target("uncolored beside exclusive colors, allocation and free", worst("reserved", 1), 1.03)
    target("4 of 16 colors, allocation", worst("four", 0), 1.2)
    target("4 of 16 colors, allocation and free", worst("four", 1), 1.2)
    target("4 of 16 colors of a group, allocation", worst("group", 0), 1.2)
    target("4 of 16 colors of a group, allocation and free", worst("group", 1), 1.2)
    target("1 of 16 colors, allocation", worst("single", 0), 1.5)
    target("1 of 16 colors, allocation and free", worst("single", 1), 1.5)
    target("4 of 16 colors, longest allocation", ratio(maximum("four"), maximum("plain")), 4)
    target("4 of 16 colors of a group, longest allocation", ratio(maximum("group"), maximum("plain")), 4)
    target("1 of 16 colors, longest allocation", ratio(maximum("single"), maximum("plain")), 4)
    target("4 of 16 colors used up, longest failure", ratio(most["four-exhausted fail alloc"], maximum("plain")), 4)
    target("1 of 16 colors used up, longest failure", ratio(most["single-exhausted fail alloc"], maximum("plain")), 4)
    fails_exactly("four-exhausted")
    fails_exactly("single-exhausted")
}

END {
    judge()
    if (form == "json") {
        printf "{\n"
        for (i = 1; i <= abouts; i++) {
            key = about[i]; sub(/ .*/, "", key)
            value = substr(about[i], length(key) + 2); gsub(/"/, "\\\"", value)
            printf "  \"%s\": \"%s\",\n", key, value
        }
        printf "  \"rows\": ["
        for (i = 1; i <= nr_rows; i++) {
            row = rows[i]; a = row " alloc"; f = row " free"
            split(row, parts, " ")
            printf "%s\n    {\"state\": \"%s\", \"workload\": \"%s\", \"alloc\": {\"average\": %.2f, \"spread\": %.2f, \"minimum\": %d, \"maximum\": %d, \"dropped\": %d}", (i == 1 ? "" : ","), parts[1], parts[2], mean(a), spread(a), least[a], most[a], dropped[a]
            if (f in runs) printf ", \"free\": {\"average\": %.2f, \"spread\": %.2f, \"minimum\": %d, \"maximum\": %d, \"dropped\": %d}", mean(f), spread(f), least[f], most[f], dropped[f]
            printf ", \"failed\": %d", failed[row]
            if (parts[1] in left) printf ", \"left\": %d", left[parts[1]]
            printf "}"
        }
        printf "\n  ],\n  \"targets\": ["
        for (i = 1; i <= nr_targets; i++)
            printf "%s\n    {\"what\": \"%s\", \"ratio\": %.4f, \"limit\": %s, \"met\": %s}", (i == 1 ? "" : ","), targets[i], founds[i], limits[i], met[i] ? "true" : "false"
        printf "\n  ],\n  \"exhausted\": ["
        for (i = 1; i <= nr_exacts; i++)
            printf "%s\n    {\"state\": \"%s\", \"longest\": %d, \"left\": %d, \"met\": %s}", (i == 1 ? "" : ","), exacts[i], most[exacts[i] " fail alloc"], left[exacts[i]], exact[i] ? "true" : "false"
        printf "\n  ],\n  \"complete\": %s\n}\n", missing ? "false" : "true"
        exit unmet()
    }
    for (i = 1; i <= abouts; i++) print "# " about[i]
    printf "%-26s %-6s %9s %7s %6s %8s %6s | %9s %7s %8s | %6s\n", "state", "use", "alloc avg", "spread", "min", "max", "ratio", "free avg", "spread", "max", "both"
    for (i = 1; i <= nr_rows; i++) {
        row = rows[i]; a = row " alloc"; f = row " free"
        split(row, parts, " ")
        if (parts[2] == "fail") {
            printf "%-26s %-6s %9.1f %7.1f %6d %8d        | failed %d of %d, pages of the colors left free: %d\n", parts[1], parts[2], mean(a), spread(a), least[a], most[a], failed[row], 100 * runs[a], left[parts[1]]
            continue
        }
        printf "%-26s %-6s %9.1f %7.1f %6d %8d %6.3f | %9.1f %7.1f %8d | %6.3f%s\n", parts[1], parts[2], mean(a), spread(a), least[a], most[a], ratio(mean(a), mean(stock_of(row) " alloc")), mean(f), spread(f), most[f], ratio(both(row), both(stock_of(row))), failed[row] ? "  failed " failed[row] : ""
    }
    print ""
    for (i = 1; i <= nr_targets; i++)
        printf "%-7s %-54s %.3f, at most %s\n", met[i] ? "met" : "not met", targets[i], founds[i], limits[i]
    for (i = 1; i <= nr_exacts; i++)
        printf "%-7s %-54s at most %d instructions, %d pages left\n", exact[i] ? "met" : "not met", exacts[i] ": each fails, no page left", most[exacts[i] " fail alloc"], left[exacts[i]]
    if (missing) print "not met a measurement is missing"
    exit unmet()
}
