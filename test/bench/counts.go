package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// requests are how many an API server has answered, by verb and resource.
type requests map[string]int

var counter = regexp.MustCompile(`^apiserver_request_total\{(.*)\} (\S+)$`)

// metrics are those of the API server.
func (l *lab) metrics(ctx context.Context) (string, error) {
	text, err := l.kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the API server's metrics: %w", err)
	}
	return string(text), nil
}

// serverCPU is how much CPU time the API server has used.
func (l *lab) serverCPU(ctx context.Context) (time.Duration, error) {
	text, err := l.metrics(ctx)
	if err != nil {
		return 0, err
	}
	seconds, err := lineOf(text, "process_cpu_seconds_total ")
	return time.Duration(seconds * float64(time.Second)), err
}

// requests asks the API server for its own count.
func (l *lab) requests(ctx context.Context) (requests, error) {
	text, err := l.metrics(ctx)
	if err != nil {
		return nil, err
	}
	all := requests{}
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		match := counter.FindStringSubmatch(lines.Text())
		if match == nil {
			continue
		}
		labels := map[string]string{}
		for label := range strings.SplitSeq(match[1], ",") {
			name, value, _ := strings.Cut(label, "=")
			labels[name] = strings.Trim(value, `"`)
		}
		n, err := strconv.ParseFloat(match[2], 64)
		if err != nil {
			return nil, fmt.Errorf("reading the API server's metrics: %w", err)
		}
		name := labels["verb"] + " " + labels["resource"]
		if labels["subresource"] != "" {
			name += "/" + labels["subresource"]
		}
		if strings.HasPrefix(labels["code"], "2") {
			all[name] += int(n)
		} else {
			all[name+", refused"] += int(n)
		}
	}
	return all, lines.Err()
}

// since are the requests for an App's objects that came after others were counted.
func (r requests) since(before requests) requests {
	all := requests{}
	for name, n := range r {
		if n -= before[name]; n > 0 && isCompared(name) {
			all[name] = n
		}
	}
	return all
}

// compared are the resources whose requests are: the lease is not, nor what a process asks
// for but once.
var compared = []string{"apps", "configmaps", "deployments", "services", "ingresses", "events"}

func isCompared(name string) bool {
	fields := strings.FieldsFunc(name, func(r rune) bool { return r == ' ' || r == '/' || r == ',' })
	return len(fields) > 1 && slices.Contains(compared, fields[1])
}

// changes is how many of them write something.
func (r requests) changes() (n int) {
	for name, count := range r {
		verb, _, _ := strings.Cut(name, " ")
		if isCompared(name) && !slices.Contains([]string{"GET", "LIST", "WATCH"}, verb) {
			n += count
		}
	}
	return n
}

// most is how many of a verb there are for that resource which has the most.
func (r requests) most(verb string) (n int) {
	for name, count := range r {
		if isCompared(name) && strings.HasPrefix(name, verb+" ") {
			n = max(n, count)
		}
	}
	return n
}

// ticks is how many units of time /proc counts in a second (getconf CLK_TCK, which is 100
// on every Linux that Go runs on).
const ticks = 100

// cpuOf is how much CPU time a process has used.
func cpuOf(pid int) (time.Duration, error) {
	if runtime.GOOS != "linux" {
		return 0, fmt.Errorf("CPU time is read from /proc, which only Linux has")
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	var used time.Duration
	for _, i := range []int{11, 12} { // utime and stime (proc_pid_stat(5)), after the name
		n, err := strconv.Atoi(fields[i])
		if err != nil {
			return 0, err
		}
		used += time.Duration(n) * time.Second / ticks
	}
	return used, nil
}

// machineTime is the CPU time of all CPUs since the machine was started, and how much of it
// was taken for other machines on the same hardware.
type machineTime struct{ all, stolen float64 }

// machineTimeNow reads it.
func machineTimeNow() (t machineTime, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return t, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(first)
	if len(fields) < 9 || fields[0] != "cpu" {
		return t, fmt.Errorf("the first line of /proc/stat is %q", first)
	}
	for i, field := range fields[1:9] { // the two after them are in the first two (proc_stat(5))
		n, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return t, fmt.Errorf("the first line of /proc/stat is %q: %w", first, err)
		}
		t.all += n
		if i == 7 {
			t.stolen = n
		}
	}
	return t, nil
}

// stolenSince is the part of the CPU time since another that was taken.
func (t machineTime) stolenSince(before machineTime) float64 {
	return (t.stolen - before.stolen) / max(t.all-before.all, 1)
}
