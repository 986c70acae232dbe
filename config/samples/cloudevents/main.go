// Command cloudevents is a sample of a receiver of the CloudEvents of Vidra: it runs a program for each drift. See
// docs/cloudevents.md.
package main

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"k8s.io/utils/lru"
)

const (
	// typePrefix begins the types of the CloudEvents of Vidra.
	typePrefix = "com.operators.infrahub.vidraresource.v1."
	// maxBody is how many bytes a CloudEvent of Vidra has at most.
	maxBody = 64 << 10
	// maxKnown is how many CloudEvents are remembered, so that one that is sent again is dropped.
	maxKnown = 10_000
	// runTimeout is the time that the program has: Vidra waits 10 seconds for an answer.
	runTimeout = 8 * time.Second
)

// drifts are the reasons for which the program is run.
var drifts = []string{"DriftCorrected", "DriftDetected", "DriftContended"}

// data is the part of the data of a CloudEvent that the program gets as variables.
type data struct {
	Note          string
	VidraResource struct{ Name string }
	Fields        []struct{ Path, User, Manager string }
}

// receiver runs a program for each drift.
type receiver struct {
	// authorization is the header that is required; none if it is empty.
	authorization string
	program       []string
	// mu lets one program run at a time, in the order of the CloudEvents.
	mu    sync.Mutex
	known *lru.Cache
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cloudevents:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("cloudevents", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:8080", "The address to receive CloudEvents on.")
	file := flags.String("authorization-file", "", "A file with the header Authorization that is required, such as \"Bearer ...\".")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("which program is to be run for each drift? Give it after the flags")
	}
	r := &receiver{program: flags.Args(), known: lru.New(maxKnown)}
	if *file != "" {
		text, err := os.ReadFile(*file)
		if err != nil {
			return err
		}
		r.authorization = strings.TrimSpace(string(text))
	}
	server := &http.Server{Addr: *listen, Handler: r, ReadTimeout: runTimeout}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	log.Printf("CloudEvents are received on %s", *listen)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// ServeHTTP accepts a CloudEvent when its program has ended well. Otherwise Vidra sends it again.
func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if subtle.ConstantTimeCompare([]byte(request.Header.Get("Authorization")), []byte(r.authorization)) == 0 && r.authorization != "" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	request.Body = http.MaxBytesReader(w, request.Body, maxBody)
	ce, err := cehttp.NewEventFromHTTPRequest(request)
	if err != nil || ce.Validate() != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	reason, isVidra := strings.CutPrefix(ce.Type(), typePrefix)
	if !isVidra || !slices.Contains(drifts, reason) {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	id := ce.Source() + " " + ce.ID()
	if _, again := r.known.Get(id); !again {
		if err := r.act(request.Context(), reason, ce.Subject(), ce.Data()); err != nil {
			log.Printf("%s of %s: %v", reason, ce.Subject(), err)
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		r.known.Add(id, nil)
	}
	w.WriteHeader(http.StatusNoContent)
}

// act runs the program: with the data of the CloudEvent as its input, and parts of it as variables.
func (r *receiver) act(ctx context.Context, reason, subject string, text []byte) error {
	var of data
	if err := json.Unmarshal(text, &of); err != nil {
		return err
	}
	var paths, writers []string
	for _, f := range of.Fields {
		paths = append(paths, f.Path)
		if by := f.User + f.Manager; f.User == "" || f.Manager == "" {
			writers = append(writers, by)
		} else {
			writers = append(writers, f.User+" ("+f.Manager+")")
		}
	}
	slices.Sort(writers)
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	program := exec.CommandContext(ctx, r.program[0], r.program[1:]...) //nolint:gosec // the user names it
	program.Stdin, program.Stdout, program.Stderr = bytes.NewReader(text), os.Stdout, os.Stderr
	program.Env = append(os.Environ(), "DRIFT_REASON="+reason, "DRIFT_OBJECT="+subject, "DRIFT_NOTE="+of.Note,
		"DRIFT_VIDRARESOURCE="+of.VidraResource.Name, "DRIFT_FIELDS="+strings.Join(paths, ","), "DRIFT_WRITERS="+strings.Join(slices.Compact(writers), ","))
	return program.Run()
}
