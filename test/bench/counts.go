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

// requests maps a verb and a resource to the number of requests that the API server has received. Requests that the API
// server has rejected count separately.
type requests map[string]int

// counter matches a line of the metric apiserver_request_total, with its labels and its value.
var counter = regexp.MustCompile(`^apiserver_request_total\{(.*)\} (\S+)$`)

// metrics reads the metrics of the API server.
func (l *lab) metrics(ctx context.Context) (string, error) {
	text, err := l.kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the API server's metrics: %w", err)
	}
	return string(text), nil
}

// serverCPU returns the CPU time that the API server has used.
func (l *lab) serverCPU(ctx context.Context) (time.Duration, error) {
	text, err := l.metrics(ctx)
	if err != nil {
		return 0, err
	}
	seconds, err := lineOf(text, "process_cpu_seconds_total ")
	return time.Duration(seconds * float64(time.Second)), err
}

// requests reads the number of requests from the metrics of the API server.
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
			all[name+", rejected"] += int(n)
		}
	}
	return all, lines.Err()
}

// since returns the increase of each number from before to r. It omits requests that are not compared.
func (r requests) since(before requests) requests {
	all := requests{}
	for name, n := range r {
		if n -= before[name]; n > 0 && isCompared(name) {
			all[name] = n
		}
	}
	return all
}

// compared are the resources whose requests are compared. Leases, and resources that a process reads only
// once, are not compared.
var compared = []string{"apps", "configmaps", "deployments", "services", "ingresses", "events"}

func isCompared(name string) bool {
	fields := strings.FieldsFunc(name, func(r rune) bool { return r == ' ' || r == '/' || r == ',' })
	return len(fields) > 1 && slices.Contains(compared, fields[1])
}

// changes returns the number of requests that write something.
func (r requests) changes() (n int) {
	for name, count := range r {
		verb, _, _ := strings.Cut(name, " ")
		if isCompared(name) && !slices.Contains([]string{"GET", "LIST", "WATCH"}, verb) {
			n += count
		}
	}
	return n
}

// most returns the number of requests with a verb, for the resource that has the most of them.
func (r requests) most(verb string) (n int) {
	for name, count := range r {
		if isCompared(name) && strings.HasPrefix(name, verb+" ") {
			n = max(n, count)
		}
	}
	return n
}

// ticks is the number of clock ticks of /proc in a second (getconf CLK_TCK, which is 100 on every Linux
// that Go supports).
const ticks = 100

// cpuOf returns the CPU time that a process has used.
func cpuOf(pid int) (time.Duration, error) {
	if runtime.GOOS != "linux" {
		return 0, fmt.Errorf("reading CPU time: only Linux has /proc")
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

// machineTime is the CPU time of all CPUs since the machine was started, and the part of this time that other
// machines on the same hardware took.
type machineTime struct{ all, stolen float64 }

// machineTimeNow reads the times from /proc/stat.
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
	for i, field := range fields[1:9] { // user and nice include guest and guest_nice (proc_stat(5))
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

// stolenSince returns the share of the CPU time since before that other machines took.
func (t machineTime) stolenSince(before machineTime) float64 {
	return (t.stolen - before.stolen) / max(t.all-before.all, 1)
}
