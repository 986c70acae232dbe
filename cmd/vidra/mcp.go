package main

import (
	"context"
	"errors"
	"io"
	"os"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/vidra-operator/vidra/cmd/internal/version"
	"github.com/vidra-operator/vidra/pkg/insight/mcp"
)

const mcpHelp = `Answer the questions of an assistant through the Model Context Protocol, on the standard
input and output: status, tree, why, blame, history, events, diff and forecast, as tools.

Every tool reads only, with your rights; there is none that writes. Values of Secrets, of
annotated objects and of environment variables are masked, and an answer has at most
64 KiB. docs/mcp.md has the configuration of assistants.`

func newMCP(k *kube) *cobra.Command {
	var operator operatorFlags
	cmd := &cobra.Command{
		Use: "mcp", Short: "Answer the questions of an assistant (Model Context Protocol)",
		Long: mcpHelp, Example: "  vidra mcp --context prod",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := operator.client(k)
			if err != nil {
				return err
			}
			// The protocol is on the standard output itself: its JSON has no raw control characters.
			transport := &sdk.IOTransport{Reader: io.NopCloser(cmd.InOrStdin()), Writer: os.Stdout}
			err = mcp.New(client, version.Line("vidra")).Run(cmd.Context(), transport)
			if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
				return nil // the assistant has ended
			}
			return err
		},
	}
	operator.add(cmd)
	return cmd
}
