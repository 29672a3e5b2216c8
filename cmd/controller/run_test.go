package main

import (
	"slices"
	"testing"
)

func TestLeases(t *testing.T) {
	for name, c := range map[string]struct {
		flags []string
		want  []string
	}{
		"a Lease in the Pods' namespace and one for the cluster": {nil, []string{"ops/self", "kube-system/ops/self"}},
		"with --namespace, a Lease in that namespace":            {[]string{"--namespace=shop"}, []string{"shop/self"}},
		"with --leader-election-namespace, that one and the cluster's": {
			[]string{"--leader-election-namespace=here"}, []string{"here/self", "kube-system/here/self"},
		},
		"with both flags, --leader-election-namespace alone": {
			[]string{"--namespace=shop", "--leader-election-namespace=here"}, []string{"here/self"},
		},
		"with --cluster-lease-namespace, the cluster's Lease there": {
			[]string{"--cluster-lease-namespace=all"}, []string{"ops/self", "all/ops/self"},
		},
		"with --leader-elect=false, none": {[]string{"--leader-elect=false"}, nil},
		"one Lease if both are the same":  {[]string{"--cluster-lease-namespace=ops"}, []string{"ops/self"}},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := parse(c.flags)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, lease := range leases(nil, o, "ops", "self") {
				got = append(got, lease.Namespace+"/"+lease.Identity)
			}
			if !slices.Equal(c.want, got) {
				t.Errorf("wanted %q, got %q", c.want, got)
			}
		})
	}
}
