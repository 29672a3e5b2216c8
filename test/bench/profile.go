package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// profileLength is the duration of a CPU profile.
const profileLength = 20 * time.Second

// profile stores two profiles of each contestant for go tool pprof: of its CPU time while it reconciles Apps, and of
// its heap afterwards. The results do not contain these turns.
func (o *options) profile(ctx context.Context) error {
	apps := o.made[len(o.made)-1]
	for _, c := range o.who {
		keep := func(r *running, what string) error {
			file := filepath.Join(o.out, strings.ReplaceAll(c.name, " ", "-")+"."+strings.SplitN(what, "?", 2)[0]+".pprof")
			o.tell("%s", file)
			return r.fetch(ctx, "/debug/pprof/"+what, file)
		}
		var t turn
		err := o.lab.timed(ctx, &t, appSubject, apps, func(ctx context.Context, finished func(context.Context) error) error {
			r, err := c.start(o.out, o.lab.Kubeconfig())
			if err != nil {
				return err
			}
			defer r.stop()
			ctx, cancel := r.living(ctx)
			defer cancel()
			if err := r.serving(ctx); err != nil {
				return err
			}
			if err := keep(r, fmt.Sprintf("profile?seconds=%.0f", profileLength.Seconds())); err != nil {
				return err
			}
			if err := finished(ctx); err != nil {
				return err
			}
			return keep(r, "heap?gc=1")
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// serving waits until a contestant serves profiles.
func (r *running) serving(ctx context.Context) error {
	const patience, again = time.Minute, 20 * time.Millisecond
	return wait.PollUntilContextTimeout(ctx, again, patience, true, func(ctx context.Context) (bool, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", r.address)
		if err != nil {
			return false, nil
		}
		return true, conn.Close()
	})
}

// fetch writes the response of a contestant to a file.
func (r *running) fetch(ctx context.Context, path, file string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.address+path, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("getting %s from %s: %s", path, r.command.Path, response.Status)
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	_, err = io.Copy(out, response.Body)
	return err
}
