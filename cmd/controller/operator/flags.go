package operator

import (
	"fmt"
	"regexp"

	"github.com/spf13/pflag"

	"windlass.dev/windlass/pkg/kinds/at"
	"windlass.dev/windlass/pkg/kinds/database"
	"windlass.dev/windlass/pkg/postgresql"
)

// Flags are the flags that the operator shares with kubectl windlass plan: the default images, and what the operator
// may do on the servers of ExternalDatabases.
type Flags struct {
	AtImage, PostgreSQLImage          string
	AllowedHosts, UntrustedExtensions []string
}

// AddFlags adds the flags to a set.
func (f *Flags) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.AtImage, "at-image", at.DefaultImage, "Image of an At without spec.image.")
	flags.StringVar(&f.PostgreSQLImage, "postgresql-image", database.DefaultImage,
		"Image of a Database without spec.image, for example registry.example.com/library/postgres. The operator "+
			"adds spec.version as the tag. A change of this flag restarts these Databases.")
	flags.StringSliceVar(&f.AllowedHosts, "external-database-allowed-hosts", nil,
		"Hosts to which the operator may connect for ExternalDatabases: host names such as *.example.com (* matches "+
			"any characters), IP addresses, and networks such as 10.0.0.0/8. An entry matches the name of a host, or "+
			"the address to which the name resolves. Empty allows all hosts except loopback, link-local and other "+
			"special addresses, the operator itself and the API server.")
	flags.StringSliceVar(&f.UntrustedExtensions, "external-database-untrusted-extensions", nil,
		"Extensions of ExternalDatabases that the operator creates as the administrator of the server if the owner of the "+
			"database may not create them. The scripts of these extensions run with all privileges of the administrator, in a "+
			"schema that the owner can write to.")
}

// repository matches an image without tag and digest. The last part of the image's path has no colon.
var repository = regexp.MustCompile(`^([^\s@/]+/)*[^\s@/:]+$`)

// ApplyTo sets the options of the flags. It returns an error if the value of a flag is invalid.
func (f *Flags) ApplyTo(o *Options) (err error) {
	if f.AtImage == "" {
		return fmt.Errorf("--at-image must not be empty")
	}
	if !repository.MatchString(f.PostgreSQLImage) {
		return fmt.Errorf("--postgresql-image must be an image without a tag or digest, such as "+
			"registry.example.com/library/postgres, not %q", f.PostgreSQLImage)
	}
	if o.ExternalDatabases.Allowed, err = postgresql.ParseAllowedHosts(f.AllowedHosts); err != nil {
		return fmt.Errorf("--external-database-allowed-hosts: %w", err)
	}
	o.AtImage = f.AtImage
	o.PostgreSQLImage = f.PostgreSQLImage
	o.ExternalDatabases.UntrustedExtensions = f.UntrustedExtensions
	return nil
}
