package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	_ "net/http/pprof" // serves the heap of the floor
	"regexp"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// runFloor runs the floor, which sends the writes on a tape, in this process.
func runFloor(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("bench floor", flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig file")
	file := flags.String("tape", "", "file with the writes for each App")
	address := flags.String("pprof", "", "address for profiles")
	if err := flags.Parse(args); err != nil {
		return err
	}
	t, err := readTape(*file, appSubject)
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return fmt.Errorf("reading kubeconfig %s: %w", *kubeconfig, err)
	}
	p, err := newPlayer(config)
	if err != nil {
		return err
	}
	failed := make(chan error, 2)
	go func() { failed <- http.ListenAndServe(*address, nil) }()
	go func() {
		if err := p.play(ctx, t, 0, time.Time{}); err != nil {
			failed <- err
		}
	}()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

// player sends the writes on a tape.
type player struct {
	config   *rest.Config
	metadata metadata.Interface
}

func newPlayer(config *rest.Config) (*player, error) {
	client, err := metadata.NewForConfig(config)
	return &player{config, client}, err
}

// version matches the field resourceVersion of an object in JSON.
var version = regexp.MustCompile(`"resourceVersion":"\d+"`)

// of returns w, a write of the tape, with the name, the namespace and the UID of the object a. The name and the UID of
// a must be as long as on the tape, so that the protobuf encoding stays valid.
func (t *tape) of(w write, a *metav1.PartialObjectMetadata) write {
	change := strings.NewReplacer(t.subject.name(0), a.Name, t.subject.namespace(0), a.Namespace, t.UID, string(a.UID))
	w.Path = change.Replace(w.Path)
	w.Body = []byte(change.Replace(string(w.Body)))
	if strings.HasSuffix(w.Path, "/status") {
		w.Body = version.ReplaceAll(w.Body, []byte(`"resourceVersion":"`+a.ResourceVersion+`"`))
	}
	return w
}

// play sends the writes for all objects whose number is at least from, with as many workers as a contestant
// has. It begins at the instant, or immediately if the instant is in the past.
func (p *player) play(ctx context.Context, t *tape, from int, instant time.Time) error {
	client, err := rest.HTTPClientFor(p.config)
	if err != nil {
		return err
	}
	list, err := p.metadata.Resource(t.subject.of).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	select {
	case <-time.After(time.Until(instant)):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	todo, events := make(chan *metav1.PartialObjectMetadata), make(chan write, len(list.Items)*len(t.Writes))
	failures := make(chan error, workers+1)
	var group, told sync.WaitGroup
	told.Go(func() { // like Windlass, the floor sends Events one after the other, in the background
		for e := range events {
			if _, err := p.send(ctx, client, e); err != nil {
				failures <- err
				return
			}
		}
	})
	for range workers {
		group.Go(func() {
			for a := range todo {
				if err := p.playOne(ctx, client, t, a, events); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	for i := range list.Items {
		if list.Items[i].Name < t.subject.name(from) {
			continue
		}
		select {
		case todo <- &list.Items[i]:
		case err := <-failures:
			return err
		}
	}
	close(todo)
	group.Wait()
	close(events)
	told.Wait()
	close(failures)
	return <-failures
}

func (p *player) playOne(
	ctx context.Context, client *http.Client, t *tape, a *metav1.PartialObjectMetadata, events chan<- write,
) error {
	for _, w := range t.Writes {
		if w = t.of(w, a); w.isEvent() {
			events <- w
			continue
		}
		answer, err := p.send(ctx, client, w)
		if err != nil {
			return err
		}
		if strings.HasSuffix(w.Path, "/status") {
			if err := json.Unmarshal(answer, a); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *player) send(ctx context.Context, client *http.Client, w write) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, w.Method, p.config.Host+w.Path, bytes.NewReader(w.Body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", w.ContentType)
	request.Header.Set("Accept", w.Accept)
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusMultipleChoices {
		err = errors.New(w.Method + " " + w.Path + ": " + string(answer))
	}
	return answer, err
}
