package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
)

// profileOptions are the flags of CPU profiles.
type profileOptions struct {
	// folder receives the profiles; empty for none.
	folder string
	length time.Duration
}

// flags adds the flags.
func (o *profileOptions) flags(fs *flag.FlagSet) {
	fs.StringVar(&o.folder, "profile", "", "A folder for CPU profiles of the operator and the API server in the last round, if Vidra works on many objects, and for a heap profile of the operator after it.")
	fs.DurationVar(&o.length, "profile-for", 10*time.Second, "How long a profile is.")
}

// writeProfiles writes CPU profiles of the operator and of the API server, which begin now.
func (l *lab) writeProfiles(ctx context.Context) error {
	o := l.profile
	if o.folder == "" {
		return nil
	}
	if err := os.MkdirAll(o.folder, 0o755); err != nil {
		return err
	}
	admin, err := rest.HTTPClientFor(l.env.Config)
	if err != nil {
		return err
	}
	path := "/debug/pprof/profile?seconds=" + strconv.Itoa(int(o.length.Seconds()))
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return download(ctx, http.DefaultClient, l.pprof+path, filepath.Join(o.folder, "operator.pprof"))
	})
	group.Go(func() error {
		return download(ctx, admin, strings.TrimSuffix(l.env.Config.Host, "/")+path, filepath.Join(o.folder, "kube-apiserver.pprof"))
	})
	return group.Wait()
}

// writeHeap writes a profile of what is reachable in the operator at rest.
func (l *lab) writeHeap(ctx context.Context) error {
	if l.profile.folder == "" {
		return nil
	}
	return download(ctx, http.DefaultClient, l.pprof+"/debug/pprof/heap?gc=1", filepath.Join(l.profile.folder, "operator-heap.pprof"))
}

// download writes the answer to a GET into a file.
func download(ctx context.Context, c *http.Client, url, path string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := c.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	content, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s", url, answer.Status)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}
