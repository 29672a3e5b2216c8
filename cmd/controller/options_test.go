package main

import (
	"strings"
	"testing"
)

func TestParseRejectsInvalidFlag(t *testing.T) {
	for name, c := range map[string]struct{ arg, want string }{
		"a flag that does not exist": {"--nonsense", "unknown flag: --nonsense"},
		"a word that is no flag":     {"nonsense", `unexpected argument "nonsense"`},
		"no workers":                 {"--workers=0", "--workers must be at least 1, not 0"},
		"workers that are no number": {
			"--workers=many", `invalid argument "many" for "--workers" flag: strconv.ParseInt: parsing "many": invalid syntax`,
		},
		"no shards":                  {"--shards=0", "--shards must be from 1 to 256, not 0"},
		"too many shards":            {"--shards=257", "--shards must be from 1 to 256, not 257"},
		"no image":                   {"--at-image=", "--at-image must not be empty"},
		"no namespace for the Lease": {"--cluster-lease-namespace=", "--cluster-lease-namespace must not be empty"},
		"an image with a tag": {
			"--postgresql-image=registry:5000/postgres:17",
			`--postgresql-image must be an image without a tag or digest, such as ` +
				`registry.example.com/library/postgres, not "registry:5000/postgres:17"`,
		},
		"an image with a digest": {
			"--postgresql-image=postgres@sha256:00",
			`--postgresql-image must be an image without a tag or digest, such as ` +
				`registry.example.com/library/postgres, not "postgres@sha256:00"`,
		},
		"an address without a port": {
			"--bind-address=localhost", `--bind-address must have the form HOST:PORT or :PORT, not "localhost"`,
		},
		"a webhook that cannot be off": {
			"--webhook-bind-address=0", `--webhook-bind-address must have the form HOST:PORT or :PORT, not "0"`,
		},
		"a webhook without TLS": {
			"--webhook-url=http://localhost:9443/convert",
			`--webhook-url must have the form https://HOST:PORT/convert, not "http://localhost:9443/convert"`,
		},
		"a webhook without a path or so": {
			"--webhook-url=localhost", `--webhook-url must have the form https://HOST:PORT/convert, not "localhost"`,
		},
		"a webhook at a URL with a query": {
			"--webhook-url=https://localhost:9443/convert?a=b",
			`--webhook-url must have the form https://HOST:PORT/convert, not "https://localhost:9443/convert?a=b"`,
		},
		"a host that is none": {
			"--external-database-allowed-hosts=10.0.0.0/8,db/x",
			`--external-database-allowed-hosts: "db/x" is not a host name such as *.db.example.com, an IP address, ` +
				`or a network such as 10.0.0.0/8`,
		},
		"a log that holds Secrets": {
			"-v=8", "--v and the levels of --vmodule must be at most 7, not 8, because higher levels log the content of Secrets",
		},
		"a part of it that does": {
			"--vmodule=request=10", "--v and the levels of --vmodule must be at most 7, not 10, because higher levels " +
				"log the content of Secrets",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse([]string{c.arg})
			if err == nil || err.Error() != c.want || strings.Contains(err.Error(), "\n") {
				t.Errorf("wanted %q, got %v", c.want, err)
			}
		})
	}
}

func TestShardsNeedLeasesAndAllNamespaces(t *testing.T) {
	for _, flag := range []string{"--namespace=shop", "--leader-elect=false"} {
		if _, err := parse([]string{"--shards=2", flag}); err == nil ||
			err.Error() != "--shards must be 1, not 2, with --namespace or --leader-elect=false" {
			t.Errorf("with %s: %v", flag, err)
		}
		if _, err := parse([]string{"--shards=1", flag}); err != nil {
			t.Errorf("with %s: %v", flag, err)
		}
	}
}

func TestShardsNeedANamespaceWithoutTheLeaseOfTheCluster(t *testing.T) {
	for _, c := range []struct {
		flags     []string
		namespace string // of the operator
		rejected  bool
	}{
		{[]string{"--shards=2"}, "ops", false},
		{[]string{"--shards=2"}, "kube-system", true},
		{[]string{"--shards=2", "--leader-election-namespace=ops"}, "kube-system", false},
		{[]string{"--shards=2", "--cluster-lease-namespace=ops"}, "ops", true},
		{nil, "kube-system", false},
	} {
		o, err := parse(c.flags)
		if err != nil {
			t.Fatal(err)
		}
		if err := o.validateIn(c.namespace); (err != nil) != c.rejected {
			t.Errorf("with %q in namespace %s: %v", c.flags, c.namespace, err)
		}
	}
}

func TestParseAcceptsOneDashOrTwo(t *testing.T) {
	for _, args := range [][]string{
		{"-kubeconfig", "/a/b", "-master=https://c:6443", "-v=2"},
		{"--kubeconfig=/a/b", "--master", "https://c:6443", "--v=2"},
	} {
		o, err := parse(args)
		if err != nil {
			t.Fatal(err)
		}
		if o.kubeconfig != "/a/b" || o.master != "https://c:6443" || o.logging.Verbosity != 2 {
			t.Errorf("%q: %q, %q, -v=%d", args, o.kubeconfig, o.master, o.logging.Verbosity)
		}
	}
}
