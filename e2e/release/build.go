package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

const (
	module = "github.com/vidra-operator/vidra"
	// source is where users find the code and the releases.
	source = "https://" + module
	// licenses is an SPDX expression.
	licenses = "Apache-2.0"
)

// release is what is built.
type release struct {
	// root is the folder of the checkout.
	root    string
	version string
	commit  commit
	image   name.Tag
	// operator and cli are the platforms of the image and of the command line.
	operator, cli []platform
}

// platform is a system and an architecture, by their names in Go, which images and krew have, too.
type platform struct{ os, arch string }

// file returns the name of the file of a program for the platform.
func (p platform) file(program string) string { return program + "_" + p.os + "_" + p.arch }

// commit is the commit that is built.
type commit struct {
	revision string
	time     time.Time
	// since is the last tag before the commit, empty if there is none. subjects are those of
	// the commits after it, the newest first.
	since    string
	subjects []string
}

// readCommit returns the commit that is checked out in a folder.
func readCommit(ctx context.Context, dir string) (c commit, err error) {
	git := func(args ...string) []string {
		if err != nil {
			return nil
		}
		var out []byte
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir, cmd.Stderr = dir, os.Stderr
		if out, err = cmd.Output(); err != nil {
			err = fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
		}
		return strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' })
	}
	head := git("log", "-1", "--format=%H%n%ct")
	commits := "HEAD"
	if tags := git("tag", "--merged=HEAD", "--no-contains=HEAD", "--sort=-version:refname"); len(tags) > 0 {
		c.since = tags[0]
		commits = c.since + "..HEAD"
	}
	c.subjects = git("log", "--no-merges", "--format=%s", commits)
	if err != nil {
		return commit{}, err
	}
	seconds, err := strconv.ParseInt(head[1], 10, 64)
	c.revision, c.time = head[0], time.Unix(seconds, 0).UTC()
	return c, err
}

// buildProgram builds ./cmd/<command> for a platform and writes it to target: statically linked,
// stripped, and with the version. The same source and version of Go give the same bytes.
func (r release) buildProgram(ctx context.Context, command string, on platform, target string) error {
	ldflags := "-s -w -X " + module + "/cmd/internal/version.linked=" + r.version
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-tags", testenv.Tags, "-ldflags", ldflags, "-o", target, "./cmd/"+command)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.root, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "GOOS="+on.os, "GOARCH="+on.arch, "CGO_ENABLED=0",
		"GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=-mod=readonly", "GOWORK=off")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building ./cmd/%s for %s: %w", command, on, err)
	}
	return nil
}
