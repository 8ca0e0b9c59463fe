-- Opens a closed scope again: a probe succeeded.
DELETE FROM sendledger.back_off AS f WHERE f.scope_key = %(scope_key)s RETURNING f.scope_key
